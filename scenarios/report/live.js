// Draws the timeline of a cluster as it goes on, and sends the steps of its buttons. Every message of the stream is the
// whole timeline that is kept, so that nothing grows here and a lost connection loses nothing.

const place = document.querySelector(".timelines"), state = document.getElementById("state");
const follow = document.getElementById("follow"), said = document.getElementById("said");
let chart = null, isPressed = false, latest = null;

// What was selected stays selected and in its place, while older messages leave and newer ones come.
const show = (recording) => {
  const before = chart?.recording.moments[chart.selected], hadFocus = chart?.scroll.contains(document.activeElement);
  const offset = chart ? chart.xOf(chart.selected) - chart.scroll.scrollLeft : 0;
  if (!chart) {
    chart = new Chart(recording, document.title, false);
    chart.id = "moment";
    charts.add(chart);
    chart.chosen = (index) => { follow.checked = false; beside(index); };
    place.append(chart.node);
  }
  chart.take(recording);
  const last = recording.moments.length - 1;
  const same = recording.moments.findIndex((moment) => before && moment[SEQ] === before[SEQ]);
  chart.selected = follow.checked ? last : Math.max(0, same);
  chart.draw();
  chart.refill();
  chart.scroll.scrollLeft = follow.checked ? chart.scroll.scrollWidth : chart.xOf(chart.selected) - offset;
  if (follow.checked) below();
  else if (chart.detail.classList.contains("beside")) beside(chart.selected);
  if (hadFocus) chart.options[chart.selected]?.focus({ preventScroll: true });
};

// What is known of a message that the reader has chosen is shown beside it; that of the latest one has its place below.
const beside = (index) => {
  const moment = chart.recording.moments[index], frame = chart.node.querySelector(".chart");
  // On a narrow screen it would cover the messages around it.
  if (chart.node.clientWidth < 700) return below();
  chart.node.append(chart.detail);
  chart.detail.classList.add("beside");
  const left = frame.offsetLeft + chart.labels.offsetWidth + chart.xOf(index) - chart.scroll.scrollLeft;
  const room = chart.node.clientWidth, width = chart.detail.offsetWidth;
  const x = left + 30 + width <= room ? left + 30 : left - width - 12;
  chart.detail.style.left = `${Math.max(0, Math.min(room - width, x))}px`;
  chart.detail.style.top = `${frame.offsetTop + TOP + LANE * Math.max(moment[SOURCE], moment[TARGET]) + LANE}px`;
};
const below = () => {
  chart.detail.classList.remove("beside");
  chart.detail.removeAttribute("style");
  chart.list.before(chart.detail);
};
addEventListener("keydown", (event) => { if (event.key === "Escape" && chart) below(); });

const cards = document.querySelector(".nodes");
const showNodes = (nodes) => cards.replaceChildren(...nodes.map((node) => html("li", { class: node.isWell ? "well" : "unwell" },
  html("strong", {}, node.name), ...node.lines.map((line) => html("span", {}, line)))));

// A picture that is replaced between the press and the release of a button would lose the click.
const showLatest = () => {
  if (isPressed || !latest) return;
  const recording = latest;
  latest = null;
  showNodes(recording.nodes);
  if (recording.moments.length) show(recording);
};
addEventListener("pointerdown", () => { isPressed = true; });
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(() => { isPressed = false; showLatest(); }));

const say = (text, tone) => { said.className = tone; said.textContent = text; };

const stream = new EventSource("events");
stream.addEventListener("open", () => { state.textContent = "live"; });
stream.addEventListener("error", () => { state.textContent = "no connection: the cluster has ended, or this page has too many copies"; });
stream.addEventListener("message", (event) => { latest = JSON.parse(event.data); showLatest(); });

follow.addEventListener("change", () => { if (chart && follow.checked) show(chart.recording); });

const form = document.querySelector(".controls");
const valueOf = (name) => {
  const text = form.elements[name].value;
  return /^[0-9]+$/.test(text) ? Number(text) : text.startsWith("{") ? JSON.parse(text) : text;
};

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1).trim().replace(/[.]$/, "")}.`;

// Why the values of a step's fields cannot be sent; nothing where they can.
const fault = (fields) => {
  const input = fields.map((name) => form.elements[name]).find((one) => !one.checkValidity());
  input?.focus();
  return input && `${input.closest("label").textContent.trim()} must be a whole number from ${input.min} to ${input.max}`;
};

const perform = async (button) => {
  const given = { node: valueOf("node"), ...JSON.parse(button.dataset.given) };
  const fields = button.dataset.fields.split(" ").filter(Boolean), what = `${button.getAttribute("aria-label")}, on ${given.node}`;
  const reason = fault(fields);
  if (reason) return say(sentence(reason), "bad");
  for (const name of fields) given[name] = valueOf(name);
  say(`${what} …`, "");
  try {
    const step = JSON.stringify({ [button.dataset.verb]: given });
    const answer = await fetch("steps", { method: "POST", headers: { "Content-Type": "application/json" }, body: step });
    const text = await answer.text();
    say(answer.ok ? sentence(text) : `Not done (${what}): ${text.trim()}.`, answer.ok ? "good" : "bad");
  } catch {
    say(`Not done (${what}): the cluster does not answer.`, "bad");
  }
};
for (const button of form.querySelectorAll("button")) button.addEventListener("click", () => perform(button));
form.addEventListener("submit", (event) => event.preventDefault());
