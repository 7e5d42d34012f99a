"""Other programs to compare with; FastXML and LPSR have no maintained package and are implemented
here.
"""
