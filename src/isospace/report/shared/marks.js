"use strict";
// Marks say what they are by their label; here it is shown to those who point, tap or use arrows.
const hint = document.getElementById("hint");
const REACH = 24; // pixels between pointer and mark

const marksOf = (plot) => [...plot.querySelectorAll(".mark-symbol.role-mark path[aria-label]")];

function hide() {
  hint.hidden = true;
  document.querySelectorAll(".chosen").forEach((mark) => mark.classList.remove("chosen"));
}

function show(plot, mark) {
  hide();
  const group = plot.closest(".twins");
  const number = marksOf(plot).indexOf(mark);
  for (const twin of group ? group.querySelectorAll(".plot") : [plot]) {
    marksOf(twin)[number].classList.add("chosen");
  }
  hint.textContent = mark.getAttribute("aria-label");
  hint.hidden = false;
  hint.style.left = 0; // measured where it has room
  const at = mark.getBoundingClientRect();
  const size = hint.getBoundingClientRect();
  const left = Math.min(at.left, document.documentElement.clientWidth - size.width - 8);
  const above = at.top - size.height - 8;
  hint.style.left = `${scrollX + Math.max(8, left)}px`;
  hint.style.top = `${scrollY + (above > 0 ? above : at.bottom + 8)}px`;
}

function nearest(plot, event) {
  let best = null;
  let least = REACH;
  for (const mark of marksOf(plot)) {
    const box = mark.getBoundingClientRect();
    const x = box.left + box.width / 2 - event.clientX;
    const y = box.top + box.height / 2 - event.clientY;
    if (Math.hypot(x, y) < least) {
      least = Math.hypot(x, y);
      best = mark;
    }
  }
  return best;
}

function walk(plot, event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const ours = !(event.altKey || event.ctrlKey || event.metaKey); // with these it is the browser's
  if (!ours || !step || !marksOf(plot).length) return;
  event.preventDefault();
  const marks = marksOf(plot);
  const now = marks.findIndex((mark) => mark.classList.contains("chosen"));
  const next = now < 0 && step < 0 ? -1 : now + step;
  show(plot, marks.at(next % marks.length));
}

document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
for (const plot of document.querySelectorAll(".plot")) {
  const point = (event) => {
    const mark = nearest(plot, event);
    if (mark) show(plot, mark);
    else hide();
  };
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerdown", point);
  plot.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
  plot.addEventListener("keydown", (event) => walk(plot, event));
  plot.addEventListener("blur", hide);
}
