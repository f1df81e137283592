// The settings for any width, from the numbers of the law: the formulas of the crate
// `analysis`, module `predict`. Words are the page's; only numbers are put in here.
(function () {
  const ABSENT = "–";
  const SUPERSCRIPTS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  const superscript = (number) => Array.from(String(number), (c) => SUPERSCRIPTS[c]).join("");

  function exponent(value) {
    const order = Math.floor(Math.log10(Math.abs(value)));
    return Number.isFinite(order) ? order : 0;
  }

  function fixed(value, decimals) {
    if (!Number.isFinite(value)) return ABSENT;
    const unit = 10 ** Math.max(-decimals, 0);
    if (decimals < 0) value = Math.round(value / unit) * unit;
    const text = Math.abs(value).toFixed(Math.min(Math.max(decimals, 0), 12));
    const sign = value < 0 && /[1-9]/.test(text) ? "−" : "";
    const [whole, rest] = text.split(".");
    const grouped = whole.length < 5 ? whole : whole.replace(/\B(?=(\d{3})+$)/g, ",");
    return sign + grouped + (rest ? "." + rest : "");
  }

  const trimmed = (text) => (text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text);

  function significant(value, digits) {
    if (!Number.isFinite(value)) return ABSENT;
    if (value === 0) return "0";
    let order = exponent(value);
    if (order >= -4 && order < 7) return trimmed(fixed(value, digits - 1 - order));
    let text = trimmed(fixed(value / 10 ** order, digits - 1));
    if (text === "10") [text, order] = ["1", order + 1];
    return (text === "1" ? "10" : text + "×10") + superscript(order);
  }

  // ḡ with its interval and unit, in a power of a thousand.
  function quantity(value, low, high) {
    const largest = Math.max(value, high);
    const power =
      largest >= 1e-3 && largest < 2e3 ? 0 : largest >= 1 && largest < 1e6 ? 3 : 3 * Math.floor(exponent(largest) / 3);
    const [v, l, h] = [value, low, high].map((x) => x / 10 ** power);
    const width = h - l;
    const digits = 2 - exponent(v);
    const decimals = Math.min(Math.max(width > 0 ? Math.min(1 - exponent(width), digits + 2) : digits, 0), 8);
    const unit = power === 0 ? " /[loss]" : " ·10" + superscript(power) + "/[loss]";
    const text = fixed(v, decimals) + " [" + fixed(l, decimals) + ", " + fixed(h, decimals) + "]" + unit;
    return text.replace(/ /g, "\u00a0");
  }

  // A rate that was worked out to be the limit itself may exceed it by rounding.
  const allowed = (rate, limit) => rate <= limit * (1 + 1e-9);

  function predict(law, w) {
    const inverse = (law.scheme === "ntk" ? 1 : w) / law.weight_scale;
    const noiseAt = (rate, size) => (rate * law.examples * inverse) / (size * (1 - law.momentum));
    const [noise, low, high] = [law.slope, law.low, law.high].map((slope) => slope * w);
    const limit = law.limit / inverse;
    const whole = (real) => Math.min(Math.floor(real * (1 + 1e-12)), law.examples);
    const pair = (size) => ({
      size: size,
      rate: noise / noiseAt(1, size),
      low: low / noiseAt(1, size),
      high: high / noiseAt(1, size),
    });
    const largest = whole(noiseAt(limit, 1) / noise);
    let chosen = null;
    if (law.fixed_size !== null) chosen = pair(law.fixed_size);
    // The whole size nearest to a fixed rate; the rate is then that of the law.
    if (law.fixed_rate !== null && largest >= 1) {
      const size = Math.round(noiseAt(law.fixed_rate, 1) / noise);
      chosen = pair(Math.min(Math.max(size, 1), largest));
    }
    if (chosen && !allowed(chosen.rate, limit)) chosen = null;
    return { noise: noise, low: low, high: high, limit: limit, pair: pair, chosen: chosen, largest: largest };
  }

  const between = (pair) => "[" + significant(pair.low, 3) + ", " + significant(pair.high, 3) + "]";

  // Of widths in ascending order the one whose ratio to w is nearest to 1.
  function nearest(all, w, width) {
    const ratio = (one) => Math.max(width(one) / w, w / width(one));
    return all.reduce((best, one) => (best === null || ratio(one) < ratio(best) ? one : best), null);
  }

  function card(root) {
    const law = JSON.parse(root.dataset.law);
    const [slide, width] = root.querySelectorAll("input");
    const put = (name, text) => root.querySelectorAll(`[data-p=${name}]`).forEach((slot) => (slot.textContent = text));
    const when = (name, holds) => root.querySelectorAll(`[data-when=${name}]`).forEach((words) => (words.hidden = !holds));
    const rows = Array.from(root.querySelectorAll("tbody tr"));

    function show(w) {
      const found = predict(law, w);
      const beyond = w < law.first || w > law.last;
      put("width", String(w));
      put("noise", quantity(found.noise, found.low, found.high));
      put("limit", significant(found.limit, 3));
      put("largest", fixed(found.largest, 0));
      when("beyond", beyond);
      const near = "near-" + nearest(law.measured, w, (one) => one);
      root.querySelectorAll("[data-when^=near]").forEach((words) => (words.hidden = words.dataset.when !== near));
      const trained = nearest(law.trained, w, (one) => one[0]);
      if (trained) {
        put("limit-width", String(trained[0]));
        put("limit-size", String(trained[1]));
      }
      when("reached", found.largest >= 1);
      when("unreached", found.largest < 1);
      when("chosen", found.chosen !== null);
      if (found.chosen) {
        put("rate", significant(found.chosen.rate, 3));
        put("rates", between(found.chosen));
        put("size", String(found.chosen.size));
      }
      for (const row of rows) {
        const [size, rate, ends, stability] = row.cells;
        const pair = found.pair(parseFloat(size.dataset.s));
        rate.dataset.s = pair.rate;
        rate.textContent = significant(pair.rate, 3);
        ends.textContent = between(pair);
        const above = !allowed(pair.rate, found.limit);
        stability.textContent = above ? "above the known limit" : "within the known limit";
        row.classList.toggle("off", above);
      }
      root.dataset.noise = found.noise;
    }

    slide.min = Math.log2(Math.max(1, law.first / 2));
    slide.max = Math.log2(16 * law.last);
    slide.addEventListener("input", function () {
      width.value = Math.round(2 ** slide.value);
      slide.setAttribute("aria-valuetext", "w = " + width.value);
      slide.dataset.typed = width.dataset.typed = "yes";
      show(Number(width.value));
    });
    width.addEventListener("input", function () {
      const w = Number(width.value);
      if (!Number.isInteger(w) || w < 1) return;
      slide.value = Math.log2(w);
      slide.setAttribute("aria-valuetext", "w = " + w);
      slide.dataset.typed = width.dataset.typed = "yes";
      show(w);
    });
    width.value = root.querySelector("[data-p=width]").textContent;
    slide.value = Math.log2(width.value);
    slide.setAttribute("aria-valuetext", "w = " + width.value);
    root.querySelector(".ask").hidden = false;
    show(Number(width.value));
  }

  window.noisescale.extend((root) => root.querySelectorAll(".predict").forEach(card));
})();
