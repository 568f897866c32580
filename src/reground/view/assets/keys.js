// Moving by keys. What can be moved to has the attribute data-stop.

const stops = () => [...document.querySelectorAll("[data-stop]")].filter((each) => each.checkVisibility());

function move(by) {
  const all = stops();
  const at = all.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by;
  if (next >= all.length) document.querySelector("[data-more]")?.click();
  const goal = stops()[Math.max(0, next)];
  goal?.focus();
  goal?.scrollIntoView({ block: "nearest" });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { key, target } = event;
  const field = target.matches("input, select, textarea");
  const filtering = target.id === "filter";
  const onStop = target.matches("[data-stop]");
  const done = {
    Escape: () => (field ? leaveField(target) : goUp()),
    Enter: filtering && (() => stops()[0]?.click()),
    ArrowDown: (filtering || onStop) && (() => move(1)),
    ArrowUp: onStop && (() => move(-1)),
    j: !field && (() => move(1)),
    k: !field && (() => move(-1)),
    n: !field && (() => goBeside(1)),
    p: !field && (() => goBeside(-1)),
    "/": !field && goToFilter,
  }[key];
  if (!done) return;
  event.preventDefault();
  done();
}

// Escape in the filter first empties it, then leaves it.
function leaveField(field) {
  if (field.id === "filter" && field.value) {
    field.value = "";
    field.dispatchEvent(new Event("input"));
  } else field.blur();
}

document.addEventListener("keydown", onKey);
