// What assistive technology needs of a page, as far as a program can tell: the faults, in words. Rules of WCAG 2.2 by their numbers.
(() => {
  const faults = [];
  const fault = (rule, element) => faults.push(`${rule}: ${element.outerHTML.slice(0, 120)}`);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const named = (element) => {
    const by = (element.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id));
    return by.some((it) => it?.textContent.trim()) || element.getAttribute("aria-label")?.trim() || element.getAttribute("alt")?.trim();
  };
  if (!document.documentElement.lang) faults.push("3.1.1 no language");
  if (!document.title.trim()) faults.push("2.4.2 no title");
  if (all("h1").length !== 1) faults.push(`1.3.1 ${all("h1").length} headings of the first level`);
  for (const landmark of ["main", "header"]) if (all(`body > ${landmark}`).length !== 1) faults.push(`1.3.1 not one ${landmark}`);
  let level = 0;
  for (const heading of all("h1,h2,h3,h4")) {
    const own = Number(heading.tagName[1]);
    if (heading.checkVisibility() && own > level + 1) fault("1.3.1 a level of headings is left out", heading);
    if (heading.checkVisibility()) level = own;
    if (!heading.textContent.trim()) fault("2.4.6 an empty heading", heading);
  }
  for (const picture of all("img,svg")) if (!named(picture)) fault("1.1.1 a picture without a name", picture);
  for (const table of all("table")) {
    if (!table.caption?.textContent.trim()) fault("1.3.1 a table without a caption", table);
    for (const cell of table.querySelectorAll("th")) if (!cell.scope) fault("1.3.1 a heading of a table without scope", cell);
  }
  for (const link of all("a[href],button")) if (!link.textContent.trim() && !named(link)) fault("2.4.4 a link without words", link);
  const ids = all("[id]").map((it) => it.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) faults.push(`4.1.1 the id ${id} twice`);
  for (const article of all("article,section,nav")) if (article.matches("nav,article") && !named(article)) fault("1.3.1 a region without a name", article);

  // 1.4.3: text against what is behind it. Both colours are opaque in these pages.
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).map((it) => Number(it) / 255).map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    return colour !== "rgba(0, 0, 0, 0)" ? colour : element.parentElement ? behind(element.parentElement) : "rgb(255, 255, 255)";
  };
  for (const element of all("body *")) {
    const has = [...element.childNodes].some((it) => it.nodeType === 3 && it.data.trim());
    if (!has || !element.checkVisibility() || element.closest("script,style,title,desc")) continue;
    const style = getComputedStyle(element);
    const [one, other] = [luminance(element.closest("svg") ? style.fill : style.color), luminance(behind(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) fault(`1.4.3 a contrast of ${contrast.toFixed(2)}`, element);
  }
  if (document.documentElement.scrollWidth > innerWidth) faults.push(`1.4.10 wider than the window: ${document.documentElement.scrollWidth}`);
  return faults;
})()
