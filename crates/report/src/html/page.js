"use strict";
// Hover and keyboard for figures, PNG downloads, sortable tables. Without it the page
// shows the same numbers; browsers then show the title of each mark.
// What a reader did to a part (sorting, opening, typing, focus) is his `view` of it:
// it can be read and put back, for a part that is renewed.
(function () {
  const REACH = 24;
  let tip = null;
  let marked = null;

  function show(mark, x, y) {
    if (marked && marked !== mark) marked.classList.remove("on");
    marked = mark;
    mark.classList.add("on");
    tip.textContent = mark.dataset.text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = document.documentElement.clientWidth - box.width - 8;
    const left = Math.max(8, Math.min(x + 14, right));
    const above = y - box.height - 12;
    tip.style.left = left + window.scrollX + "px";
    tip.style.top = (above > 4 ? above : y + 16) + window.scrollY + "px";
  }

  function hide() {
    if (marked) marked.classList.remove("on");
    marked = null;
    if (tip) tip.hidden = true;
  }

  function placing(svg) {
    const box = svg.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    return (mark) => [box.left + mark.dataset.x * scale, box.top + mark.dataset.y * scale];
  }

  function nearest(svg, marks, x, y) {
    const place = placing(svg);
    let best = null;
    let distance = REACH;
    for (const mark of marks) {
      const [mx, my] = place(mark);
      const d = Math.hypot(mx - x, my - y);
      if (d < distance) [best, distance] = [mark, d];
    }
    return best;
  }

  function figure(svg) {
    const marks = Array.from(svg.querySelectorAll(".mark"));
    const points = svg.closest("figure").dataset.points;
    const way = (mark) => points && mark.dataset.point && points + mark.dataset.point;
    marks.forEach(function (mark, at) {
      const title = mark.querySelector("title");
      mark.dataset.text = title.textContent + (way(mark) ? "\npress it to see its runs" : "");
      mark.setAttribute("aria-label", title.textContent);
      mark.setAttribute("role", way(mark) ? "link" : "img");
      mark.setAttribute("tabindex", at === 0 ? "0" : "-1");
      title.remove();
      mark.addEventListener("focus", function () {
        // A pointer shows the nearest mark, which need not be the one under it.
        if (!mark.matches(":focus-visible")) return;
        const [x, y] = placing(svg)(mark);
        show(mark, x, y);
      });
      mark.addEventListener("blur", hide);
    });
    svg.setAttribute("role", "group");
    svg.addEventListener("pointermove", function (event) {
      if (event.pointerType === "touch") return;
      const mark = nearest(svg, marks, event.clientX, event.clientY);
      if (mark) show(mark, event.clientX, event.clientY);
      else hide();
    });
    // A finger cannot hover: its first touch shows a mark, its second follows it.
    let chosen = null;
    svg.addEventListener("pointerdown", function (event) {
      const mark = nearest(svg, marks, event.clientX, event.clientY);
      chosen = mark === marked ? mark : null;
      if (mark) show(mark, event.clientX, event.clientY);
      else hide();
    });
    svg.addEventListener("pointerleave", function (event) {
      if (event.pointerType !== "touch") hide();
    });
    svg.addEventListener("click", function () {
      if (chosen && way(chosen)) location.href = way(chosen);
    });
    svg.addEventListener("keydown", function (event) {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      const at = marks.indexOf(document.activeElement);
      if (event.key === "Enter" && at >= 0 && way(marks[at])) location.href = way(marks[at]);
      if (!step || at < 0) return;
      event.preventDefault();
      const next = marks[(at + step + marks.length) % marks.length];
      marks[at].setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  }

  function png(link) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "PNG";
    button.addEventListener("click", function () {
      const image = new Image();
      image.onload = function () {
        const canvas = document.createElement("canvas");
        canvas.width = 2 * image.width;
        canvas.height = 2 * image.height;
        canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
        const save = document.createElement("a");
        save.href = canvas.toDataURL("image/png");
        save.download = link.download.replace(/svg$/, "png");
        save.click();
      };
      image.src = link.href;
    });
    link.after(button);
  }

  function sort(table, at, direction) {
    const heads = table.tHead.rows[0].cells;
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[at].setAttribute("aria-sort", direction);
    const sign = direction === "descending" ? -1 : 1;
    const keyed = Array.from(table.tBodies[0].rows, function (row) {
      const cell = row.cells[at];
      const number = parseFloat(cell.dataset.s);
      return [row, Number.isNaN(number) ? Infinity : number, cell.textContent];
    });
    const words = new Intl.Collator(undefined, { numeric: true });
    keyed.sort(function ([, x, s], [, y, t]) {
      return sign * (x === y ? words.compare(s, t) : x - y);
    });
    table.tBodies[0].append(...keyed.map(([row]) => row));
  }

  function sortable(table) {
    Array.from(table.tHead.rows[0].cells).forEach(function (head, at) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", function () {
        const down = head.getAttribute("aria-sort") === "ascending";
        sort(table, at, down ? "descending" : "ascending");
      });
    });
  }

  const FOCUSABLE = "a[href],button,input,summary,.mark";

  function view(part) {
    const all = (selector) => Array.from(part.querySelectorAll(selector));
    const focusable = all(FOCUSABLE);
    return {
      open: all("details").map((one) => one.open),
      sorts: all("table.sort").map(function (table) {
        const head = table.querySelector("th[aria-sort]");
        return head && [head.cellIndex, head.getAttribute("aria-sort")];
      }),
      typed: all("input").map((input) => input.dataset.typed && input.value),
      focus: focusable.indexOf(document.activeElement),
      hover: marked && marked !== document.activeElement ? all(".mark").indexOf(marked) : -1,
      scrolled: all(".scroll").map((box) => box.scrollLeft),
    };
  }

  function setView(part, seen) {
    const all = (selector) => Array.from(part.querySelectorAll(selector));
    all("details").forEach((one, at) => (one.open = seen.open[at] ?? one.open));
    all("table.sort").forEach(function (table, at) {
      if (seen.sorts[at]) sort(table, ...seen.sorts[at]);
    });
    all("input").forEach(function (input, at) {
      if (!seen.typed[at]) return;
      input.value = seen.typed[at];
      input.dispatchEvent(new Event("input", { bubbles: true }));
    });
    all(".scroll").forEach((box, at) => (box.scrollLeft = seen.scrolled[at] ?? 0));
    const focus = all(FOCUSABLE)[seen.focus];
    if (focus) {
      if (focus.classList.contains("mark")) {
        focus.ownerSVGElement.querySelectorAll(".mark").forEach((m) => m.setAttribute("tabindex", "-1"));
        focus.setAttribute("tabindex", "0");
      }
      focus.focus({ preventScroll: true });
    }
    const hovered = all(".mark")[seen.hover];
    if (hovered) {
      const [x, y] = placing(hovered.ownerSVGElement)(hovered);
      show(hovered, x, y);
    }
  }

  const extras = [];

  function enhance(root) {
    if (!tip) {
      tip = document.createElement("div");
      tip.id = "tip";
      tip.hidden = true;
      tip.setAttribute("role", "status");
      document.body.append(tip);
    }
    root.querySelectorAll("figure svg").forEach(figure);
    root.querySelectorAll("a[data-svg]").forEach(png);
    root.querySelectorAll("table.sort").forEach(sortable);
    extras.forEach((extra) => extra(root));
  }

  // Puts a part in the place of another, with the reader's view of it.
  function renew(old, part) {
    const seen = view(old);
    if (marked && old.contains(marked)) hide();
    old.replaceWith(part);
    enhance(part);
    setView(part, seen);
  }

  document.addEventListener("pointerdown", function (event) {
    if (!event.target.closest("figure svg")) hide();
  });
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach((one) => (one.open = true));
  });
  window.noisescale = {
    enhance: enhance,
    renew: renew,
    extend: function (extra) {
      extras.push(extra);
      extra(document);
    },
  };
  enhance(document);
})();
