// Tables that are wider than a page scroll in a box, which keys must reach.
{
  const reach = () => document.querySelectorAll(".md-typeset__scrollwrap").forEach((it) => {
    it.tabIndex = it.scrollWidth > it.clientWidth ? 0 : -1;
  });
  addEventListener("load", reach);
  addEventListener("resize", reach);
}
