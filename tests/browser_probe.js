// What tests ask a page in a browser.

// What axe-core finds wrong; where it is not sure, a person has to look.
async function violations() {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  const said = (node) => `${node.target} ${node.failureSummary}`;
  return found.violations.map((it) => `${it.id}: ${it.nodes.slice(0, 3).map(said).join("; ")}`);
}

// How many parts the Tab key should reach.
function reachable() {
  const parts = document.querySelectorAll("a[href], button, input, select, summary, [tabindex]");
  const folded = "details:not([open]) > :not(summary)";
  return [...parts].filter((it) => it.tabIndex >= 0 && !it.disabled
    && it.checkVisibility({ visibilityProperty: true }) && !it.closest(folded)).length;
}

// The part that has the focus: its name, its outline's style and width, its area; it is marked as reached.
function focused() {
  const it = document.activeElement;
  if (!it || it === document.body) return null;
  const look = getComputedStyle(it), box = it.getBoundingClientRect();
  it.dataset.tabbed = "yes";
  return [it.tagName, look.outlineStyle, parseFloat(look.outlineWidth), box.width * box.height];
}

// Left, top, right, bottom and text of all that is shown.
function boxes(selector) {
  return [...document.querySelectorAll(selector)].map((it) => [it.getBoundingClientRect(), it.textContent])
    .filter(([box]) => box.width > 0).map(([box, text]) => [box.left, box.top, box.right, box.bottom, text]);
}

var wide = () => document.documentElement.scrollWidth;
var pairs = () => [...document.querySelectorAll("#heat .cell")].map((it) => it.dataset.pair);
var unfold = () => document.querySelectorAll("details").forEach((it) => { it.open = true; });
