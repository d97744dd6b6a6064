// Filters the table of a report, and draws the timelines of a story when it is opened.
const open = (story, isOpen) => {
  const panel = story.querySelector(".panel"), place = panel.querySelector(".timelines");
  story.querySelector(".name button").setAttribute("aria-expanded", String(isOpen));
  panel.hidden = !isOpen;
  if (!isOpen || !place || place.firstChild) return;
  const number = story.dataset.number;
  place.append(clocks(number));
  const recordings = JSON.parse(document.getElementById(`data-${number}`).textContent);
  recordings.forEach((recording, index) => {
    const chart = new Chart(recording, nameOf(story), panel.querySelector(".failure") !== null);
    chart.id = `moment-${number}-${index}`;
    charts.add(chart);
    place.append(chart.node);
  });
  for (const chart of charts) if (place.contains(chart.node)) chart.draw();
};

const nameOf = (story) => story.querySelector(".name").textContent.trim();
const stories = [...document.querySelectorAll("tbody.story")];
const said = new Map(stories.map((story) => [story, story.textContent.toLowerCase()]));
const search = document.getElementById("search");
const boxes = [...document.querySelectorAll("input[name=verdict]")];

const filter = () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const verdicts = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
  let shown = 0;
  for (const story of stories) {
    story.hidden = !verdicts.has(story.dataset.verdict) || !words.every((word) => said.get(story).includes(word));
    shown += !story.hidden;
  }
  document.getElementById("count").textContent = `${shown} of ${stories.length} shown`;
  document.getElementById("none").hidden = shown > 0;
};

const openNamed = () => {
  const name = decodeURIComponent(location.hash.slice(1));
  const story = stories.find((one) => nameOf(one) === name);
  if (story) { open(story, true); story.scrollIntoView(); }
  return story;
};

for (const story of stories) {
  story.querySelector(".name button").addEventListener("click", () => {
    const isOpen = story.querySelector(".panel").hidden;
    open(story, isOpen);
    history.replaceState(null, "", isOpen ? `#${encodeURIComponent(nameOf(story))}` : location.pathname);
  });
}
for (const link of document.querySelectorAll(".what a")) link.addEventListener("click", () => open(link.closest(".story"), true));
document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
search.addEventListener("input", filter);
for (const box of boxes) box.addEventListener("change", filter);
addEventListener("hashchange", openNamed);
filter();
if (!openNamed() && stories.length === 1) open(stories[0], true);
