// Keeps the page up to date: the server sends the sections that have changed.
"use strict";

(() => {
  const note = document.getElementById("connection");
  const waiting = new Map();

  // A reader who selects text or is inside a section is not disturbed: the section is drawn when they leave it.
  const inUse = (place) => {
    const selection = document.getSelection();
    return place.contains(document.activeElement)
      || (selection && !selection.isCollapsed && place.contains(selection.anchorNode));
  };

  const draw = (name, html) => {
    const place = document.querySelector(`[data-section="${name}"]`);
    if (!place) return;
    if (inUse(place)) { waiting.set(name, html); return; }
    waiting.delete(name);
    const open = new Set([...place.querySelectorAll("details[open]")].map((each) => each.dataset.key));
    place.innerHTML = html;
    for (const each of place.querySelectorAll("details")) each.open = open.has(each.dataset.key);
  };

  const catchUp = () => { for (const [name, html] of [...waiting]) draw(name, html); };
  document.addEventListener("focusout", () => setTimeout(catchUp, 0));
  document.addEventListener("selectionchange", catchUp);

  const search = new URLSearchParams(location.search).get("search") || "";
  const source = new EventSource(`/events?search=${encodeURIComponent(search)}`);
  source.onopen = () => { note.textContent = ""; };
  source.onmessage = (event) => {
    for (const [name, html] of Object.entries(JSON.parse(event.data))) draw(name, html);
  };
  source.onerror = () => {
    note.textContent = `No news from the job since ${new Date().toLocaleTimeString()}: it has ended, or cannot be reached.`;
  };
  // The question was in the address: a copied link would ask again, a reload should not.
  if (document.querySelector(".record, [role=alert]")) document.getElementById("inspect").scrollIntoView();
})();
