"""One short file per operator: the eigenproblem of each method of embedding."""
