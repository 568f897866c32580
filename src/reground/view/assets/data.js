// What there is to see: read from the server, or from the page itself where everything stands in it.

const state = { epoch: 0, change: 0, sources: [], items: [], notices: [] };
const alone = document.getElementById("news") !== null;
const stories = new Map();
const every = alone ? 0 : 2000; // milliseconds between two looks at what is new; 0 looks once
const morePages = {};
const KEPT = 30; // stories in memory

const within = (id) => JSON.parse(document.getElementById(id).textContent);

async function asked(path) {
  const response = await fetch(path, { cache: "no-store" });
  const told = await response.json();
  if (!response.ok) throw new Error(told.error);
  return told;
}

// Read what is new. Returns whether anything changed, and whether there is more at once.
async function readNews() {
  const told = alone ? within("news") : await asked(`news?epoch=${state.epoch}&since=${state.change}`);
  const again = told.epoch !== state.epoch;
  const about = JSON.stringify([told.sources, told.notices]);
  const changed = again || told.items.length > 0 || about !== state.about;
  if (again) {
    state.items = [];
    stories.clear();
  }
  for (const item of told.items) {
    state.items[item.n] = item;
    stories.delete(item.n);
  }
  const { epoch, change, place, sources, notices } = told;
  Object.assign(state, { epoch, change, sources, notices, about });
  document.getElementById("place").textContent = place;
  return { changed, more: told.more };
}

// A question's whole story, by its number.
async function readStory(number) {
  if (stories.has(number)) return stories.get(number);
  const told = alone ? within(`question-${number}`) : await asked(`question/${number}?epoch=${state.epoch}`);
  if (told.error) throw new Error(told.error);
  if (stories.size >= KEPT) stories.delete(stories.keys().next().value);
  stories.set(number, told);
  return told;
}

// The name of a run: its method and budget, and what else is needed to tell runs apart.
function sourceName(source) {
  if (source.kind !== "run") return source.name;
  const runs = state.sources.filter((each) => each.kind === "run");
  const differs = (field) => new Set(runs.map((each) => each[field])).size > 1;
  const name = source.budget === "none" ? source.method : `${source.method}@${source.budget}`;
  return [name, differs("model") && source.model, differs("task") && source.task].filter(Boolean).join(" ");
}
