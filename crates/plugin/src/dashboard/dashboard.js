"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const live = byId("live"), said = byId("said"), lost = byId("lost");
  const SILENCE = 12000;
  // By the API server's clock, as it is told again and again: that of this machine may be minutes off.
  let ahead = Number(live.dataset.now) - Date.now();
  const now = () => Date.now() + ahead;
  let heard = Date.now(), version = Number(live.dataset.version);

  // Keyboard: each grid is one stop of Tab, arrow keys move within it.
  const links = (grid) => [...grid.querySelectorAll(":scope > li > a")];
  const stops = new WeakMap();
  const rove = (grid, to) => {
    const from = stops.get(grid);
    if (from) from.tabIndex = -1;
    if (to) to.tabIndex = 0;
    stops.set(grid, to);
  };
  const columns = (grid) => getComputedStyle(grid).gridTemplateColumns.split(" ").length;
  const steps = (grid) => ({ ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(grid), ArrowDown: columns(grid), Home: -Infinity, End: Infinity });
  document.addEventListener("keydown", (event) => {
    const grid = event.target.closest?.(".cells");
    if (!grid || event.ctrlKey || event.altKey || event.metaKey) return;
    const step = steps(grid)[event.key];
    if (step === undefined) return;
    const all = links(grid);
    const next = Math.min(all.length - 1, Math.max(0, all.indexOf(event.target) + step));
    event.preventDefault();
    rove(grid, all[next]);
    all[next].focus();
  });
  document.addEventListener("focusin", (event) => {
    const grid = event.target.closest?.(".cells");
    if (grid && event.target.tabIndex !== 0) rove(grid, event.target);
  });

  const parse = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  };
  const insert = (list, item, key) => {
    // The first that comes after it: they are in order.
    const all = [...list.children];
    let from = 0, to = all.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (all[middle].dataset.key > key) to = middle; else from = middle + 1;
    }
    list.insertBefore(item, all[from] ?? null);
    if (!list.matches(".cells")) return;
    const link = item.querySelector("a");
    if (stops.get(list)) link.tabIndex = -1; else rove(list, link);
  };
  const remove = (item) => {
    const list = item.parentNode, had = item.contains(stops.get(list) ?? null);
    item.remove();
    if (had) rove(list, list.querySelector("a"));
  };
  const put = ({ id, list, key, html }) => {
    const old = byId(id), place = list ? byId(list) : old?.parentNode;
    if (!place) return old && list ? remove(old) : undefined;
    const item = parse(html);
    const parts = (of) => [...of.querySelectorAll("a,summary")];
    const focused = old ? parts(old).indexOf(document.activeElement) : -1;
    old?.querySelectorAll("details").forEach((it, index) => {
      const fold = item.querySelectorAll("details")[index];
      if (fold) fold.open = it.open;
    });
    if (old && old.parentNode === place) {
      const had = old.contains(stops.get(place) ?? null);
      old.replaceWith(item);
      if (place.matches(".cells")) {
        item.querySelector("a").tabIndex = -1;
        if (had) rove(place, item.querySelector("a"));
      }
    } else {
      if (old) remove(old);
      insert(place, item, key);
    }
    if (focused >= 0) parts(item)[focused]?.focus();
  };
  const reload = async () => {
    const answer = await fetch(location.href);
    const main = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    const here = document.querySelector("main");
    const ours = (it) => ["live", "said", "lost"].includes(it.id);
    live.dataset.part = main.querySelector("#live").dataset.part;
    [...here.children].filter((it) => !ours(it)).forEach((it) => it.remove());
    here.append(...[...main.children].filter((it) => !ours(it)));
  };

  // What a time says of now: as kubectl has it.
  const duration = (seconds) => {
    const [m, h, d] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
    if (seconds < 120) return `${seconds}s`;
    if (m < 10) return seconds % 60 ? `${m}m${seconds % 60}s` : `${m}m`;
    if (h < 3) return `${m}m`;
    return h < 48 ? `${h}h` : `${d}d`;
  };
  const utc = (ms) => new Date(ms).toISOString().replace("T", " ").replace(/\..*/, " UTC");
  const tick = () => {
    for (const time of document.querySelectorAll("time[data-live]")) {
      const left = Math.round((Date.parse(time.dateTime) - now()) / 1000);
      time.textContent = left > 0 ? `in ${duration(left)}` : `${duration(-left)} ago`;
    }
    if (Date.now() - heard > SILENCE && lost.hidden) tell();
  };
  const tell = () => {
    lost.hidden = false;
    lost.textContent = `Connection to kubectl fence lost since ${utc(heard + ahead)}: what you see is of then. It is tried again; does the command still run?`;
  };

  const events = new EventSource(`${live.dataset.events}?since=${version}`);
  const alive = () => { heard = Date.now(); lost.hidden = true; };
  events.addEventListener("beat", (event) => {
    alive();
    ahead = Number(event.data) - Date.now();
  });
  events.addEventListener("delta", (event) => {
    const delta = JSON.parse(event.data);
    alive();
    if (delta.reload) return location.reload();
    if (live.dataset.part) {
      const about = live.dataset.part.split(" ");
      if (delta.pieces.some((it) => about.includes(it.id)) || delta.gone.some((it) => about.includes(it))) reload();
    } else {
      for (const id of delta.gone) { const old = byId(id); if (old) remove(old); }
      delta.pieces.forEach(put);
    }
    version = delta.version;
    live.dataset.version = version;
    if (delta.said.length) said.textContent = delta.said.join(". ");
    tick();
  });
  events.onerror = tell;
  document.querySelectorAll(".cells").forEach((grid) => {
    const all = links(grid);
    all.forEach((link) => { link.tabIndex = -1; });
    rove(grid, all[0]);
  });
  setInterval(tick, 1000);
  tick();
})();
