// What the server has to show: asked with the key of this tab, where it wants one.

const state = { items: [], sources: [{ kind: "served", name: "", notices: [] }], models: [], documents: [] };
const every = 0; // the list is read again behind each question, and else never

async function send(path, body, signal) {
  const key = sessionStorage.getItem("key");
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  const posted = body && { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(path, { cache: "no-store", headers, signal, ...posted });
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  const why = told?.error?.message ?? `the server answered ${response.status}`;
  if (response.status === 401) askForKey(why);
  throw new Error(why);
}

const asked = async (path, body) => (await send(path, body)).json();

async function readNews() {
  state.models = (await asked("v1/models")).data;
  state.documents = (await asked("v1/documents")).data;
  state.items = (await asked("v1/questions")).data;
  return { changed: true, more: false };
}

// A question's whole story, with links to the documents that it quotes.
async function readStory(name) {
  const told = await asked(`v1/questions/${name}`);
  const corpus = state.items.find((item) => item.n === name)?.corpus;
  const { citations = [], shown = [], sentences = [] } = told.answer ?? {};
  linked([...citations, ...shown, ...sentences.flatMap((each) => each.supports)], corpus);
  return told;
}

// Gives each quote of a file the address at which the page shows it.
function linked(quotes, corpus) {
  for (const each of quotes) {
    if (corpus && each.url && !each.url.includes("://")) each.link = textLink(corpus, each.url, each.quote, placeOf(each));
  }
}

const textLink = (corpus, file, quote = "", where = "") => link("/text", new URLSearchParams({ corpus, file, quote, where }));

// The events of a stream, one after the other.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = "";
  for (let { value, done } = await reader.read(); !done; { value, done } = await reader.read()) {
    const parts = (kept + value).split("\n\n");
    kept = parts.pop();
    for (const part of parts) {
      const data = part.split("\n").find((line) => line.startsWith("data: "))?.slice(6);
      if (data && data !== "[DONE]") yield JSON.parse(data);
    }
  }
}
