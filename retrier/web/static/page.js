// What the page does by itself: times in the reader's zone, numbers that change in place, keys, dialogs.
"use strict";
(() => {
  const root = document.documentElement;
  const find = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector, within = document) => within.querySelector(selector);

  // Times. The clock of the service counts, not that of this machine: they may differ.
  const ahead = Date.parse(root.dataset.now) - Date.now();
  const now = () => Date.now() + ahead;
  const units = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
  const pad = (number) => String(number).padStart(2, "0");
  const utc = (at) => at.toISOString().replace("T", " ").slice(0, 19) + " UTC";
  const span = (seconds) => {
    for (const [size, unit] of units) {
      const count = Math.floor(seconds / size);
      if (count >= 1) return `${count.toLocaleString("en")} ${unit}${count === 1 ? "" : "s"}`;
    }
    return "a moment";
  };
  const ago = (at) => {
    const seconds = (now() - at) / 1000;
    if (Math.abs(seconds) < 2) return "just now";
    return seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
  };
  const day = (at) => `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  const clock = (at) => `${pad(at.getHours())}:${pad(at.getMinutes())}`;
  const seconds = (at) => `${clock(at)}:${pad(at.getSeconds())}`;
  const exact = (at) => `${day(at)} ${seconds(at)}`;
  const moment = (at) => (day(at) === day(new Date(now())) ? seconds(at) : exact(at));
  const forms = { ago, clock, full: exact, moment };
  const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  const tell = (element) => {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) return;
    put(element, (forms[element.dataset.time] || ago)(at));
    element.title = `${exact(at)} here, ${utc(at)}`;
  };
  const tellAll = (within = document) => find("time[data-time]", within).forEach(tell);

  // Numbers that change in place, and what came since.
  const isSeen = (element) => !element.closest("[hidden]");
  const came = new Set();
  const known = new Map();
  const COUNTS = ["/count", "/open"];
  const apply = (key, text) => {
    known.set(key, text);
    const name = CSS.escape(key);
    find(`[data-live="${name}"]`).forEach((each) => put(each, text));
    if (key === "headline" && one("[data-live-title]")) document.title = `${text} · Retrier`;
    find(`[data-live-value="${name}"]`).forEach((each) => { each.value = Number(text); put(each, text); });
    find(`[data-live-max="${name}"]`).forEach((each) => { each.max = Math.max(1, Number(text)); });
    find(`[data-live-time="${name}"]`).forEach((each) => { each.dateTime = text; tell(each); });
    find(`[data-live-href="${name}"]`).forEach((each) => { each.href = text; });
    find(`[data-live-tone="${name}"]`).forEach((each) => { each.className = `badge ${text}`; });
    // What is said or offered in one state only: while there is something, or unless there is.
    const nothing = text === "" || text === "0";
    const had = document.activeElement;
    find(`[data-while="${name}"]`).forEach((each) => { each.hidden = nothing; });
    find(`[data-unless="${name}"]`).forEach((each) => { each.hidden = !nothing; });
    if (had.closest("[hidden]")) (find("a[href], button", had.closest("td") || document).find(isSeen) || one("#main")).focus();
  };
  const tellNews = () => {
    for (const each of find("[data-news]")) {
      const { news, newsSince, newsValue, newsIds } = each.dataset;
      let count = 0;
      if (news) {
        const begun = [...came].filter((key) => key.startsWith(news) && COUNTS.every((each) => known.get(key + each) !== "0"));
        count = begun.filter((key) => !one(`[data-row="${CSS.escape(key)}"]`)).length;
      } else if (newsValue && known.has(newsValue)) {
        count = Number(known.get(newsValue)) - Number(newsSince);
      } else if (newsIds && known.has(newsIds)) {
        count = known.get(newsIds).split(" ").filter((each) => Number(each) > Number(newsSince)).length;
      }
      each.hidden = count <= 0;
      // Ids are told of the newest only.
      if (count > 0) put(one("[data-count]", each), newsIds && count > 50 ? "50+" : count.toLocaleString("en"));
    }
  };
  const take = (message) => {
    const { set, new: born = [] } = JSON.parse(message.data);
    for (const key of born) for (const each of COUNTS) if (key.endsWith(each)) came.add(key.slice(0, -each.length));
    for (const [key, text] of Object.entries(set)) apply(key, text);
    if (known.get("trouble")) away(true); else if (source) away(false);
    if (Object.keys(set).length) tellNews();
    renew();
  };

  // The page of one message: when its state has changed, the parts that tell it are fetched anew.
  let renewing = false;
  const renewParts = (fresh) => {
    for (const each of find("[data-renew]")) {
      const part = fresh.getElementById(each.id);
      if (!part || part.innerHTML === each.innerHTML) continue;
      const held = each.contains(document.activeElement) ? document.activeElement.textContent : null;
      each.replaceChildren(...part.childNodes);
      htmx.process(each);
      tellAll(each);
      if (held !== null) (find("a, button", each).find((to) => to.textContent === held) || one("#main")).focus();
    }
  };
  const renew = async () => {
    const watch = one("[data-watch]"), told = watch && known.get(`message/${watch.dataset.watch}`);
    if (!told || told === watch.dataset.seen || renewing) return;
    renewing = true;
    try {
      const answer = await fetch(location.pathname + location.search);
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      renewParts(fresh);
      // What was told meanwhile is looked at again; what is told is never older than the page for long.
      watch.dataset.seen = told;
    } catch { /* the connection says that the service is away */ } finally { renewing = false; }
    if (known.get(`message/${watch.dataset.watch}`) !== told) renew();
  };

  // One connection, closed while nobody looks. What is shown stays, and says so, while there is none.
  let source = null, version = root.dataset.live, later = 0;
  const live = one("#live"), state = one("[data-live-state]");
  const away = (is) => { one("#away").hidden = !is; };
  const show = (name, text) => { live.classList.remove("is-on", "is-off"); if (name) live.classList.add(name); put(state, text); };
  const close = () => { clearTimeout(later); if (source) source.close(); source = null; };
  const open = () => {
    close();
    const watch = one("[data-watch]"), message = watch ? `&message=${watch.dataset.watch}` : "";
    source = new EventSource(`/events/page?since=${encodeURIComponent(version)}${message}`);
    source.onopen = () => { show("is-on", "live"); away(false); };
    source.onmessage = (message) => { version = message.lastEventId; take(message); };
    source.onerror = () => {
      show("is-off", "away");
      later = setTimeout(() => { away(true); if (!document.hidden) open(); }, 2000);
      if (source && source.readyState !== EventSource.CLOSED) source.close();
    };
  };
  const follow = () => { if (document.hidden) { close(); show("", "paused"); } else open(); };

  // Rows and keys.
  let current = -1;
  const rows = () => find("[data-row]");
  const go = (to) => {
    const all = rows();
    if (!all.length) return;
    all.forEach((each) => each.classList.remove("is-current"));
    current = Math.max(0, Math.min(all.length - 1, to));
    const row = all[current];
    row.classList.add("is-current");
    (find("a[href], button", row).find(isSeen) || row).focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  };
  const currentRow = () => rows()[current];
  const press = (selector) => {
    const found = (currentRow() && find(selector, currentRow()).find(isSeen)) || one(`main > ${selector}, .head ${selector}, [data-main] ${selector}`);
    if (found) found.click();
  };
  const type = (into) => { if (into) { into.focus(); into.select(); } };
  const keys = {
    "/": () => type(one("#find")),
    f: () => type(one("[data-filter]")),
    j: () => go(current + 1),
    k: () => go(current - 1),
    x: () => { const box = currentRow() && one("input[type=checkbox]", currentRow()); if (box) box.click(); },
    r: () => press("[data-preview], [data-retry]:not([data-locked])"),
    "?": () => one("#keys").showModal(),
  };
  const isTyping = (element) => element.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && event.target.closest("details.menu[open]");
    if (menu) { menu.open = false; one("summary", menu).focus(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
    if (isTyping(event.target)) { if (event.key === "Escape") event.target.blur(); return; }
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  // Rows that are selected: what is to be done with them opens a preview.
  const tellPicked = () => {
    for (const form of find("form[data-picks]")) {
      const boxes = find("input[name=id]", form), page = one("[data-pick-page]", form), said = one("[data-picked]", form);
      if (!said) continue;
      const every = Boolean(one("input[name=all]:checked", form));
      const count = boxes.filter((each) => each.checked).length;
      boxes.forEach((each) => { each.disabled = every; });
      page.hidden = false;
      page.disabled = every;
      page.checked = every || count === boxes.length;
      page.indeterminate = !every && count > 0 && count < boxes.length;
      put(said, every ? "All selected:" : count ? `${count} selected` : "Select some");
      find("button[name=act]:not([data-locked])", form).forEach((each) => { each.disabled = !every && !count; });
    }
  };
  document.addEventListener("change", (event) => {
    const page = event.target.closest("[data-pick-page]");
    if (page) find("input[name=id]", page.form).forEach((each) => { each.checked = page.checked; });
    if (event.target.closest("form[data-picks]")) tellPicked();
  });

  // Times that are written into a filter are those of the reader; the service is told them in UTC.
  const wall = (at) => `${day(at)}T${seconds(at)}`;
  for (const each of find("input[data-utc]")) {
    if (each.value) each.value = wall(new Date(`${each.value}Z`));
    put(one("[data-zone]", each.parentElement), "(your time)");
  }
  document.addEventListener("formdata", (event) => {
    if (!("tidy" in event.target.dataset)) return;
    for (const each of find("input[data-utc]", event.target)) {
      const at = new Date(each.value);
      if (!Number.isNaN(at.getTime())) event.formData.set(each.name, at.toISOString().slice(0, 19));
    }
    for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
  });

  // Previews open in a dialog; without scripts they are pages. A form is sent once.
  const sheet = one("#sheet");
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id === "sheet-content" && !sheet.open) sheet.showModal();
  });
  document.addEventListener("htmx:load", (event) => { tellAll(event.detail.elt); tellNews(); tellPicked(); });
  const tellAway = () => {
    away(true);
    one("#sheet-content").replaceChildren(one("#unreachable").content.cloneNode(true));
    if (!sheet.open) sheet.showModal();
  };
  document.addEventListener("htmx:sendError", (event) => { if (event.detail.target.id === "sheet-content") tellAway(); else away(true); });
  document.addEventListener("click", (event) => {
    find("details.menu[open]").forEach((each) => { if (!each.contains(event.target)) each.open = false; });
    const cancel = event.target.closest("[data-cancel]");
    if (cancel && sheet.open && sheet.contains(cancel)) { event.preventDefault(); sheet.close(); }
    const note = event.target.closest("[data-close]");
    if (note) note.closest("[data-flash]").remove();
    const news = event.target.closest("[data-news] button");
    if (news) {
      const target = news.closest("[data-news]").dataset.target;
      htmx.ajax("GET", location.pathname + location.search, { target, select: target, swap: "outerHTML" }).then(() => came.clear());
    }
    if (event.target === sheet) sheet.close();
  });
  document.addEventListener("submit", (event) => {
    // A form that cannot be sent would leave this page for one of the browser.
    if (event.target.method === "post" && !one("#away").hidden && state.textContent === "away") { event.preventDefault(); tellAway(); return; }
    if (event.target.method === "post") setTimeout(() => find("button", event.target).forEach((each) => { each.disabled = true; }));
  });
  addEventListener("pageshow", (event) => {
    find("form[method=post] button:disabled:not([data-locked])").forEach((each) => { each.disabled = false; });
    tellPicked();
    if (event.persisted) follow();
  });

  // Light or dark.
  one("#theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("retrier-theme", root.dataset.theme); } catch { /* then for this page only */ }
  });
  one("#help").addEventListener("click", () => one("#keys").showModal());

  // What was just done is told once: an address that is shared does not tell it again.
  const address = new URL(location.href);
  if (address.searchParams.has("done")) { address.searchParams.delete("done"); history.replaceState(null, "", address); }

  tellAll();
  setInterval(() => { if (!document.hidden) tellAll(); }, 5000);
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", close);
  follow();
})();
