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
    chart.chosen = () => { follow.checked = false; };
    charts.add(chart);
    place.append(chart.node);
  }
  chart.take(recording);
  const last = recording.moments.length - 1;
  const same = recording.moments.findIndex((moment) => before && moment[SEQ] === before[SEQ]);
  chart.selected = follow.checked ? last : Math.max(0, same);
  chart.draw();
  chart.refill();
  chart.scroll.scrollLeft = follow.checked ? chart.scroll.scrollWidth : chart.xOf(chart.selected) - offset;
  if (hadFocus) chart.options[chart.selected]?.focus({ preventScroll: true });
};

// A picture that is replaced between the press and the release of a button would lose the click.
const showLatest = () => {
  if (isPressed || !latest) return;
  const recording = latest;
  latest = null;
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

const perform = async (button) => {
  const given = { node: valueOf("node"), ...JSON.parse(button.dataset.given) };
  for (const name of button.dataset.fields.split(" ").filter(Boolean)) given[name] = valueOf(name);
  const step = JSON.stringify({ [button.dataset.verb]: given });
  say(`${step} …`, "");
  try {
    const answer = await fetch("steps", { method: "POST", headers: { "Content-Type": "application/json" }, body: step });
    say(`${step}: ${await answer.text()}`, answer.ok ? "good" : "bad");
  } catch {
    say(`${step}: the cluster does not answer`, "bad");
  }
};
for (const button of form.querySelectorAll("button")) button.addEventListener("click", () => perform(button));
form.addEventListener("submit", (event) => event.preventDefault());
