// Which page is shown, and what is new from time to time.

const NAME = document.title;
const main = document.getElementById("main");
let current = { page: "none", params: new URLSearchParams() };
let last = null; // the question that was open, to come back to its row

// The address of a page, with the filter that the list has.
function link(path, params) {
  const query = params.toString();
  return `#${path}${query ? `?${query}` : ""}`;
}

function place() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const params = new URLSearchParams(query);
  const found = /^\/q\/([\w~-]+)(?:\/call\/(\d+))?$/.exec(path);
  if (!found) return { page: path.slice(1) in morePages ? path.slice(1) : "list", params };
  return { page: found[2] === undefined ? "story" : "call", params, n: found[1], call: Number(found[2]) };
}

function setQuery(params) {
  history.replaceState(null, "", link("/", params));
  current.params = params;
}

async function show() {
  const wanted = (current = place());
  if (wanted.page === "list") {
    main.replaceChildren(...listPage(wanted.params).flat(9).filter(Boolean));
    fillList(wanted.params);
    document.title = NAME;
    focusList();
    return;
  }
  try {
    const parts = await (morePages[wanted.page] ?? questionPage)(wanted);
    if (current !== wanted) return; // another page was opened meanwhile
    main.replaceChildren(...parts.flat(9).filter(Boolean));
    document.title = `${short(main.querySelector("h1").textContent, 60)} – ${NAME}`;
  } catch (error) {
    wanted.failed = true;
    main.replaceChildren(el("h1", { tabindex: "-1" }, "This cannot be shown"),
      el("p", { class: "failure", dir: "auto" }, error.message), el("p", {}, el("a", { href: link("/", wanted.params) }, "Questions")));
  }
  scrollTo(0, 0);
  main.querySelector("h1").focus({ preventScroll: true });
  main.querySelector("mark.here")?.scrollIntoView({ block: "center" });
}

async function questionPage({ page, n, call, params }) {
  const item = state.items.find((each) => isAt(each, n));
  last = n;
  if (item === undefined) throw new Error("There is no such question, or it has not been read yet.");
  const told = await readStory(item.n);
  return page === "call" ? callPage(item, told, call, params) : storyPage(item, told, params);
}

// Whether an item has this number, which in an address is a text.
const isAt = (item, n) => String(item?.n) === String(n);

function focusList() {
  const row = last === null ? null : document.querySelector(`[data-n="${last}"]`);
  last = null;
  if (row) {
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "center" });
    return;
  }
  scrollTo(0, 0);
  // on a phone a keyboard would cover the page
  if (matchMedia("(pointer: fine)").matches) document.getElementById("question")?.focus();
}

function goUp() {
  if (current.page === "call") location.hash = link(`/q/${current.n}`, current.params);
  else if (current.page !== "list") location.hash = link("/", current.params);
}

// The question before or after this one in the list.
function goBeside(by) {
  if (current.n === undefined) return;
  const list = shown(current.params);
  const other = list[list.findIndex((each) => isAt(each, current.n)) + by];
  if (other) location.hash = link(`/q/${other.n}`, current.params);
}

function goToFilter() {
  if (current.page !== "list") {
    last = null;
    location.hash = link("/", current.params);
    addEventListener("hashchange", () => document.getElementById("filter")?.focus(), { once: true });
  } else document.getElementById("filter").focus();
}

async function follow() {
  let pause = every;
  try {
    const { changed, more } = await readNews();
    pause = more ? 0 : every;
    if (changed) onNews(more);
    say(every ? (more ? "reading…" : "live") : "");
  } catch (error) {
    say(error instanceof TypeError ? "the server has ended; what is shown stays" : error.message);
  }
  if (every) setTimeout(follow, pause);
}

function onNews(more) {
  if (current.page === "none" || current.failed) show();
  else if (current.page === "list") updateList(current.params, more);
}

function say(text) {
  const status = document.getElementById("status");
  if (status.textContent !== text) status.textContent = text;
  status.className = text === "live" ? "live" : "";
}

document.querySelector("footer").hidden = false;
addEventListener("hashchange", show);
follow();
