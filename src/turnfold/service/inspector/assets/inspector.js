// What a page cannot do by itself: remember dark or light, move by keys, and follow calls as they are made.
"use strict";

const root = document.documentElement;
const BRIGHTNESS = "turnfold-brightness";

function kept() {
  try {
    return localStorage.getItem(BRIGHTNESS);
  } catch {
    return null; // a browser may refuse to keep anything
  }
}

function show(brightness) {
  if (brightness === "dark" || brightness === "light") root.dataset.brightness = brightness;
}

function isDark() {
  if (root.dataset.brightness) return root.dataset.brightness === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

show(kept()); // before anything is drawn, so that nothing flashes

function toggle() {
  const next = isDark() ? "light" : "dark";
  show(next);
  try {
    localStorage.setItem(BRIGHTNESS, next);
  } catch {
    // it holds for this page
  }
}

function step(by) {
  const rows = [...document.querySelectorAll("main .row")].filter((row) => row.offsetParent !== null);
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1);
  rows[next].focus();
  rows[next].scrollIntoView({ block: "nearest" });
}

function pressed(event) {
  const typing = event.target.closest("input, select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing) {
    if (event.key === "Escape") typing.blur();
    return;
  }
  if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "/") {
    const search = document.querySelector("main input[type=search]");
    if (!search) return;
    search.focus();
    search.select();
  } else return;
  event.preventDefault();
}

// A page fetched again is parsed without running anything; its text was escaped where it was written.
const policy = globalThis.trustedTypes
  ? trustedTypes.createPolicy("turnfold", { createHTML: (text) => text })
  : { createHTML: (text) => text };

async function drawAgain() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const text = policy.createHTML(await answer.text());
  const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("main");
  const main = document.querySelector("main");
  if (!fresh || main.contains(document.activeElement) && document.activeElement.closest("form")) return;
  const scrolled = [...main.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  const focused = document.activeElement.getAttribute("href");
  main.replaceChildren(...fresh.childNodes);
  localTimes(main);
  main.querySelectorAll(".scroll").forEach((box, at) => (box.scrollLeft = scrolled[at] ?? box.scrollWidth));
  const again = focused && [...main.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused);
  if (again) again.focus();
}

function follow(main) {
  const events = new EventSource(main.dataset.live);
  const sign = document.getElementById("live");
  let waiting = 0;
  events.onopen = () => sign.classList.add("on");
  events.onerror = () => sign.classList.remove("on");
  const soon = () => {
    clearTimeout(waiting);
    waiting = setTimeout(drawAgain, 150);
  };
  events.addEventListener("call", soon);
  events.addEventListener("deleted", () => events.close());
  addEventListener("pagehide", () => events.close());
}

// What stands before the button goes to the clipboard; where a browser refuses that, it is selected for the reader.
async function copy(button) {
  const text = button.closest("details").querySelector("pre.copied");
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = button.dataset.copy;
  } catch {
    getSelection().selectAllChildren(text);
  }
}

function clicked(event) {
  const button = event.target.closest("button[data-copy]");
  if (button) copy(button);
}

// Times are written in UTC; a browser knows the zone of its reader. Year first, so that no reader takes a month for a day.
function localTimes(within) {
  const two = "2-digit";
  const day = { year: "numeric", month: two, day: two };
  const form = { ...day, hour: two, minute: two, second: two, hourCycle: "h23", timeZoneName: "short" };
  within.querySelectorAll("time[datetime]").forEach((shown) => {
    const at = new Date(shown.dateTime);
    if (Number.isNaN(at.getTime())) return;
    const parts = new Intl.DateTimeFormat("en", form).formatToParts(at).map((part) => [part.type, part.value]);
    const { year, month, day, hour, minute, second, timeZoneName } = Object.fromEntries(parts);
    shown.title = shown.dateTime;
    shown.textContent = `${year}-${month}-${day} ${hour}:${minute}:${second} ${timeZoneName}`;
  });
}

document.addEventListener("DOMContentLoaded", () => {
  localTimes(document);
  document.getElementById("brightness").addEventListener("click", toggle);
  document.addEventListener("keydown", pressed);
  document.addEventListener("click", clicked);
  document.querySelectorAll(".scroll").forEach((box) => (box.scrollLeft = box.scrollWidth));
  const main = document.querySelector("main");
  if (main.dataset.live) follow(main);
});
