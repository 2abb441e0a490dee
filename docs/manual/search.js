// Search in the pages of the manual: the index is a script beside this one, loaded when it is first wanted. A section is
// found that has all the words; those with the words in their heading come first.
"use strict";
(() => {
  const root = document.body.dataset.root;
  const input = document.querySelector("input[type=search]");
  const found = document.getElementById("found");
  const most = 30;  // results that are shown
  let chosen = -1;

  const loaded = () => new Promise((resolve, reject) => {
    if (window.searchIndex) return resolve(window.searchIndex);
    const script = document.createElement("script");
    script.src = root + "search-index.js";
    script.onload = () => resolve(window.searchIndex);
    script.onerror = () => reject(new Error("the index could not be loaded"));
    document.head.append(script);
  });

  const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter((word) => word !== "");

  // Help on a name before pages that use it, and those before the insides of the libraries.
  const weights = [["help/", 3], ["cpp/c.html", 1.5], ["cpp/", 0.5], ["files/", 0.2]];
  const weightOf = (url) => weights.find(([folder]) => url.startsWith(folder))?.[1] ?? 1;

  // How well a record [url, title, heading, text] answers; 0 where a word is missing.
  const scoreOf = ([url, title, heading, text], words, whole) => {
    const name = heading.toLowerCase(), page = title.toLowerCase(), body = text.toLowerCase();
    let score = 0;
    for (const word of words) {
      const inName = name.includes(word), inPage = page.includes(word);
      if (!inName && !inPage && !body.includes(word)) return 0;
      score += (inName ? 20 : 0) + (inPage ? 8 : 0) + Math.min(5, body.split(word).length - 1);
    }
    if (name === whole || (name === "" && page === whole)) score += 200;
    else if (name.startsWith(whole)) score += 40;
    return score * weightOf(url);
  };

  // The words around the first that was found, or the first of all below a heading that has what was asked for, as nodes
  // in which all of them are marked. It begins and ends where words do.
  const excerpt = (heading, text, words) => {
    const lower = text.toLowerCase(), name = heading.toLowerCase();
    const places = words.map((word) => lower.indexOf(word)).filter((place) => place >= 0);
    const inside = places.length > 0 && !words.every((word) => name.includes(word));
    const from = inside ? text.lastIndexOf(" ", Math.max(0, Math.min(...places) - 60)) + 1 : 0;
    const stop = text.indexOf(" ", from + 180);
    const span = document.createElement("span");
    const part = (from > 0 ? "… " : "") + (stop < 0 ? text.slice(from) : text.slice(from, stop) + " …");
    const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    for (const piece of part.split(new RegExp(`(${escaped.join("|")})`, "i"))) {
      const isWord = words.includes(piece.toLowerCase());
      const node = document.createElement(isWord ? "mark" : "i");
      node.textContent = piece;
      span.append(isWord ? node : document.createTextNode(piece));
    }
    return span;
  };

  const show = (records, words) => {
    chosen = -1;
    found.replaceChildren();
    found.hidden = words.length === 0;
    if (words.length === 0) return;
    const whole = words.join(" ");
    const hits = records.map((record) => [scoreOf(record, words, whole), record]).filter(([score]) => score > 0);
    hits.sort(([a], [b]) => b - a);
    for (const [, record] of hits.slice(0, most)) {
      const link = document.createElement("a");
      link.href = root + record[0];
      const title = document.createElement("b");
      title.textContent = record[2] || record[1];
      link.append(title, record[2] ? ` · ${record[1]}` : "", excerpt(title.textContent, record[3], words));
      found.append(link);
    }
    if (hits.length === 0) found.textContent = `Nothing in the manual has "${whole}".`;
    else if (hits.length > most) found.append(`and ${hits.length - most} more: another word narrows them`);
  };

  const search = () => loaded().then((records) => show(records, wordsOf(input.value)), (error) => {
    found.hidden = false;
    found.textContent = error.message;
  });

  const choose = (step) => {
    const links = found.querySelectorAll("a");
    if (links.length === 0) return;
    links[chosen]?.classList.remove("chosen");
    chosen = (chosen + step + links.length) % links.length;
    links[chosen].classList.add("chosen");
    links[chosen].scrollIntoView({ block: "nearest" });
  };

  input.addEventListener("input", search);
  input.addEventListener("focus", () => { if (input.value) search(); });
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    (found.querySelector("a.chosen") ?? found.querySelector("a"))?.click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { found.hidden = true; input.blur(); }
    else if (event.key === "/" && document.activeElement !== input) { event.preventDefault(); input.focus(); }
    else if (event.key === "ArrowDown" && document.activeElement === input) { event.preventDefault(); choose(1); }
    else if (event.key === "ArrowUp" && document.activeElement === input) { event.preventDefault(); choose(-1); }
  });
  found.addEventListener("click", (event) => { if (event.target.closest("a")) found.hidden = true; });
  document.addEventListener("click", (event) => {
    if (!found.contains(event.target) && event.target !== input) found.hidden = true;
  });

  // index.html?q=word searches at once.
  const asked = new URLSearchParams(location.search).get("q");
  if (asked) { input.value = asked; search(); }
})();
