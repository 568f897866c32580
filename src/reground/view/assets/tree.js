// A search tree: nodes that open, the branch that UCB1 would try next first.

function treePage(item, told, params) {
  const { nodes, metadata, stopped } = told.tree;
  const below = nodes.map(() => []);
  nodes.forEach((node, at) => node.parent !== null && below[node.parent].push(at));
  for (const children of below) children.sort((a, b) => (nodes[b].priority ?? -Infinity) - (nodes[a].priority ?? -Infinity));
  const known = Object.entries(metadata).filter(([, value]) => ["string", "number"].includes(typeof value));
  const tree = el("ul", { class: "tree" }, nodeItem(nodes, below, 0, 2));
  return [
    crumbs(item, params),
    el("h1", { tabindex: "-1", dir: "auto" }, told.question),
    el("p", { class: "facts" }, [plural(nodes.length, "node"), stopped && `stopped by ${stopped}`,
      ...known.map(([name, value]) => `${name} ${value}`)].filter(Boolean)
      .map((text) => [el("span", { class: "badge", dir: "auto" }, short(text, 100)), " "])),
    section("Search tree",
      el("p", { class: "soft" }, "Each node: its mean reward, its visits, the action, and what it says. ",
        "The branch that UCB1 would try next comes first."),
      el("p", { class: "buttons" }, el("button", { type: "button", onclick: () => openBest(tree, nodes, below) },
        "Open the most visited path")),
      tree),
  ];
}

// A node. Those below it are made when it is opened. open: the levels that begin open.
function nodeItem(nodes, below, at, open) {
  const node = nodes[at];
  const inside = el("div", { class: "inside" });
  const details = el("details", { open: open > 0 },
    el("summary", { "data-stop": true },
      el("span", { class: "number" }, node.mean === null ? "not tried" : decimals(node.mean, 3)),
      node.mean !== null && bar(node.mean),
      el("span", { class: "soft" }, plural(node.visits, "visit")), " ",
      el("span", { class: "kind" }, node.label), node.copies > 1 && ` ×${node.copies}`, " ",
      el("span", { class: "gist", dir: "auto" }, short(node.said, 200))),
    inside);
  const fill = () => {
    if (!inside.hasChildNodes()) inside.append(...nodeBody(nodes, below, at, open - 1));
  };
  details.addEventListener("toggle", fill);
  if (open > 0) fill();
  return el("li", { "data-node": at }, details);
}

function nodeBody(nodes, below, at, open) {
  const node = nodes[at];
  const data = Object.entries(node.data);
  const children = below[at];
  return [
    block(node.said),
    node.passage && el("details", {}, el("summary", { "data-stop": true }, "Document"), block(node.passage)),
    node.rewards.length > 0 && el("p", { class: "soft" }, `rewards of its own simulations: ${
      node.rewards.slice(0, 50).map((reward) => decimals(reward)).join(", ")}${node.rewards.length > 50 ? ", …" : ""}`),
    data.length > 0 && el("details", {}, el("summary", { "data-stop": true }, "Data"),
      el("dl", {}, data.map(([name, value]) => [el("dt", {}, name), el("dd", {}, block(plainValue(value)))]))),
    node.terminal && el("p", { class: "soft" }, "An end: nothing can follow."),
    children.length > 0 && el("ul", { class: "tree" }, children.map((child) => nodeItem(nodes, below, child, open))),
  ].filter(Boolean);
}

async function openBest(tree, nodes, below) {
  let at = 0;
  for (;;) {
    const summary = tree.querySelector(`[data-node="${at}"] > details`);
    summary.open = true;
    await new Promise((done) => setTimeout(done)); // its children are made when the event of the opening comes
    if (!below[at].length) {
      summary.querySelector("summary").focus();
      return;
    }
    at = below[at].reduce((best, child) => (nodes[child].visits > nodes[best].visits ? child : best));
  }
}
