// Shows a judge one pair after another. All text from outside goes through textContent, so none of it can act.
"use strict";

const of = (id) => document.getElementById(id);
const NAME = "arena judge", RULES = "arena rules", KEYS = "arena keys";
const SETTLE = 350; // milliseconds in which a new pair takes no vote: a key or a click meant for the one before
const VERDICTS = { a: "a", b: "b", t: "tie", x: "bad" };
let judge = "", shown = null, busy = false, since = 0;

function remembered(key) {
  try { return localStorage.getItem(key); } catch { return null; }
}

function remember(key, value) {
  try { value === null ? localStorage.removeItem(key) : localStorage.setItem(key, value); } catch { /* not allowed */ }
}

async function post(path, body) {
  let reply;
  try {
    reply = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ judge, ...body }),
    });
  } catch {
    throw new Error("The arena cannot be reached. Nothing was saved; try again.");
  }
  const data = await reply.json().catch(() => ({}));
  if (!reply.ok) {
    const error = new Error(`That was not saved: ${data.error || reply.status}`);
    error.stale = reply.status === 409;
    throw error;
  }
  return data;
}

async function act(path, body, said) {
  if (busy) return;
  busy = true;
  try {
    show(await post(path, body), said);
  } catch (error) {
    if (error.stale) await post("next", {}).then((data) => show(data, "This pair was no longer open.")).catch(fail);
    else fail(error);
  } finally {
    busy = false;
  }
}

function fail(error) {
  of("problem").textContent = error.message;
  if (!shown) enter();
}

function show(data, said = "") {
  shown = data;
  judge = data.judge;
  remember(NAME, judge);
  const left = data.total - data.done, pair = data.pair;
  of("problem").textContent = "";
  of("judge").textContent = judge;
  of("count").textContent = `${data.done} of ${data.total} judged, round ${data.round}`;
  of("bar").value = data.done;
  of("bar").max = data.total;
  for (const id of ["who", "progress", "rules", "voting"]) of(id).hidden = false;
  of("entrance").hidden = true;
  of("arena").hidden = of("verdicts").hidden = of("skip").hidden = !pair;
  of("finished").hidden = Boolean(pair);
  for (const [id, text] of Object.entries(pair || { question: "", a: "", b: "" }))
    if (id !== "id") of(id).textContent = text;
  const again = data.again ? "You skipped this pair before." : "";
  of("status").textContent = [said, pair ? again : "", left === 1 ? "The last pair." : ""].filter(Boolean).join(" ");
  since = performance.now();
  window.scrollTo(0, 0);
  of(pair ? "asked" : "done").focus({ preventScroll: true });
}

function enter() {
  shown = null;
  for (const id of ["who", "progress", "rules", "voting", "arena", "finished"]) of(id).hidden = true;
  of("entrance").hidden = false;
  of("status").textContent = "";
  of("name").value = remembered(NAME) || "";
  of("name").focus();
}

const settled = () => shown && performance.now() - since > SETTLE;

function vote(verdict) {
  if (!settled() || !shown.pair) return;
  if (remembered(RULES) === null) of("rules").open = false; // read once, they need the room no more
  act("vote", { pair: shown.pair.id, round: shown.round, verdict }, "Vote saved.");
}

function skip() {
  if (settled() && shown.pair) act("skip", { pair: shown.pair.id, round: shown.round }, "Skipped; it comes back later.");
}

function newRound() {
  if (!settled()) return;
  if (shown.pair) of("sure").showModal();
  else begin();
}

function begin() {
  of("sure").close();
  act("round", { round: shown.round }, "A new round begins.");
}

function press(event) {
  const typing = event.target.closest?.("input:not([type=checkbox]), textarea, dialog");
  if (typing || event.repeat || event.ctrlKey || event.metaKey || event.altKey || !of("keys").checked) return;
  const key = event.key.toLowerCase();
  if (Object.hasOwn(VERDICTS, key)) vote(VERDICTS[key]);
  else if (key === "s") skip();
  else if (key === "n") newRound();
}

of("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  judge = of("name").value;
  act("next", {});
});
of("leave").addEventListener("click", enter);
of("skip").addEventListener("click", skip);
of("round").addEventListener("click", newRound);
of("yes").addEventListener("click", begin);
of("no").addEventListener("click", () => of("sure").close());
of("keys").addEventListener("change", () => remember(KEYS, of("keys").checked ? "on" : "off"));
of("rules").querySelector("summary").addEventListener("click", () => remember(RULES, of("rules").open ? "closed" : "open"));
for (const button of of("verdicts").children) button.addEventListener("click", () => vote(button.dataset.verdict));
document.addEventListener("keydown", press);

of("rules").open = remembered(RULES) !== "closed";
of("keys").checked = remembered(KEYS) !== "off";
judge = remembered(NAME) || "";
if (judge) act("next", {});
else enter();
