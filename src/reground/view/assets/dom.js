// Makes elements. Text from models and documents only ever becomes text nodes, never markup.

// Characters that act instead of appearing, or that turn the text around them.
const ACTS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
const harmless = (child) => (typeof child === "string" ? child.replace(ACTS, "\ufffd") : child);

function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false).map(harmless));
  return made;
}

// A text of a model or a document: its own direction, its line breaks kept.
const block = (text, more = "") => el("div", { class: `text ${more}`.trim(), dir: "auto" }, text);

const section = (title, ...children) => el("section", {}, el("h2", {}, title), ...children);

function table(label, headers, rows) {
  const cell = (tag, content, numeric, props) => el(tag, { class: numeric ? "number" : null, ...props }, content);
  const head = headers.map(([title, numeric]) => cell("th", title, numeric, { scope: "col" }));
  const body = rows.map((row) =>
    el("tr", {}, row.map((content, i) => cell(i ? "td" : "th", content, headers[i][1], i ? {} : { scope: "row" }))));
  return el("div", { class: "wide", role: "region", "aria-label": label, tabindex: "0" },
    el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}

// A share from 0 to 1 as a small bar beside its number. Its width is no news to a screen reader.
function bar(share) {
  const filled = el("span", { class: "filled" });
  filled.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return el("span", { class: "bar", "aria-hidden": "true" }, filled);
}

// A link to the open web; other addresses, such as paths and scripts, stay text.
function address(url) {
  if (!/^https?:\/\//i.test(url)) return el("span", { class: "soft", dir: "auto" }, url);
  return el("a", { href: url, rel: "noreferrer noopener", target: "_blank", dir: "auto" }, url);
}

const short = (text, most) => {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= most ? line : `${line.slice(0, most - 1)}…`;
};
const decimals = (value, places = 2) => (value === null || value === undefined ? "–" : value.toFixed(places));
const tokens = (count) =>
  count < 1000 ? `${Math.round(count)}` : count < 1e6 ? `${(count / 1000).toFixed(1)}k` : `${(count / 1e6).toFixed(2)}M`;
const seconds = (count) => (count < 90 ? `${count.toFixed(1)} s` : `${(count / 60).toFixed(1)} min`);
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
