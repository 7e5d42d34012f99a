"""What must hold of every page: nothing leaves the screen, and axe-core finds no violation."""

from typing import Any

# Elements that reach beyond the screen, unless they are in a box that scrolls.
_OUTSIDE = """() => {
  const width = document.documentElement.clientWidth;
  const clipped = (node) => {
    for (let box = node.parentElement; box && box !== document.body; box = box.parentElement)
      if (getComputedStyle(box).overflowX !== "visible") return true;
    return false;
  };
  return [...document.querySelectorAll("body *")].filter((node) => {
    const { left, right, width: own } = node.getBoundingClientRect();
    return own > 0 && (right > width + 1 || left < -1) && !clipped(node);
  }).map((node) => `${node.tagName} ${node.className}`);
}"""


def check_looks(page: Any) -> None:
    """Check the page as it is now."""
    from axe_playwright_python.sync_playwright import Axe

    assert page.evaluate(_OUTSIDE) == [], page.url
    found = Axe().run(page).response["violations"]
    assert not [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found], page.url
