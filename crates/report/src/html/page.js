"use strict";
// Hover and keyboard for figures, PNG downloads, sortable tables. Without it the page
// shows the same numbers; browsers then show the title of each mark.
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

  function place(svg, mark) {
    const box = svg.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    return [box.left + mark.dataset.x * scale, box.top + mark.dataset.y * scale];
  }

  function nearest(svg, marks, x, y) {
    let best = null;
    let distance = REACH;
    for (const mark of marks) {
      const [mx, my] = place(svg, mark);
      const d = Math.hypot(mx - x, my - y);
      if (d < distance) [best, distance] = [mark, d];
    }
    return best;
  }

  function figure(svg) {
    const marks = Array.from(svg.querySelectorAll(".mark"));
    marks.forEach(function (mark, at) {
      const title = mark.querySelector("title");
      mark.dataset.text = title.textContent;
      mark.setAttribute("aria-label", title.textContent);
      mark.setAttribute("role", "img");
      mark.setAttribute("tabindex", at === 0 ? "0" : "-1");
      title.remove();
      mark.addEventListener("focus", function () {
        const [x, y] = place(svg, mark);
        show(mark, x, y);
      });
      mark.addEventListener("blur", hide);
    });
    svg.setAttribute("role", "group");
    svg.addEventListener("pointermove", function (event) {
      const mark = nearest(svg, marks, event.clientX, event.clientY);
      if (mark) show(mark, event.clientX, event.clientY);
      else hide();
    });
    svg.addEventListener("pointerdown", function (event) {
      const mark = nearest(svg, marks, event.clientX, event.clientY);
      if (mark) show(mark, event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("keydown", function (event) {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      const at = marks.indexOf(document.activeElement);
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

  function sortable(table) {
    Array.from(table.querySelectorAll("thead th")).forEach(function (head, at) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", function () {
        const down = head.getAttribute("aria-sort") === "ascending";
        table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => {
          const cell = row.cells[at];
          const number = parseFloat(cell.dataset.s);
          return [Number.isNaN(number) ? Infinity : number, cell.textContent];
        };
        const body = table.tBodies[0];
        const rows = Array.from(body.rows);
        rows.sort(function (a, b) {
          const [x, s] = key(a);
          const [y, t] = key(b);
          const order = x === y ? s.localeCompare(t, undefined, { numeric: true }) : x - y;
          return down ? -order : order;
        });
        body.append(...rows);
      });
    });
  }

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
  }

  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach((one) => (one.open = true));
  });
  window.noisescale = { enhance: enhance };
  enhance(document);
})();
