// Renews a served page: asks every two seconds which parts have changed, and fetches
// those. A file is not served and has no feed.
(function () {
  const EVERY = 2000;
  const feed = document.body.dataset.feed;
  if (!feed) return;
  const main = document.getElementById("main");
  const light = document.createElement("p");
  light.className = "live";
  light.setAttribute("role", "status");
  document.querySelector("header.top").append(light);

  function say(state, words) {
    if (light.dataset.state === state) return;
    light.dataset.state = state;
    light.textContent = words;
  }

  async function get(address) {
    const answer = await fetch(address, { cache: "no-cache", credentials: "same-origin" });
    if (!answer.ok) throw new Error(answer.status);
    return answer;
  }

  async function fetched(name) {
    const answer = await get(feed + "/" + name);
    const frame = document.createElement("template");
    frame.innerHTML = await answer.text();
    return frame.content.firstElementChild;
  }

  // Keeps what is at the top of the window where it is.
  function steadily(change) {
    const shown = Array.from(main.children).find((part) => part.getBoundingClientRect().bottom > 0);
    const name = shown && shown.dataset.part;
    const before = shown ? shown.getBoundingClientRect().top : 0;
    change();
    const after = name && main.querySelector(`[data-part="${name}"]`);
    if (after && window.scrollY > 0) window.scrollBy(0, after.getBoundingClientRect().top - before);
  }

  async function renew() {
    const listed = await (await get(feed)).json();
    if (listed.stamp !== document.body.dataset.stamp) {
      location.reload();
      return;
    }
    const there = new Map(Array.from(main.children, (part) => [part.dataset.part, part]));
    const changed = listed.parts.filter(function ([name, stamp]) {
      const part = there.get(name);
      return !part || part.dataset.stamp !== stamp;
    });
    const parts = new Map();
    for (const [name] of changed) parts.set(name, await fetched(name));
    if (parts.size === 0 && listed.parts.length === there.size) return;
    steadily(function () {
      const names = new Set(listed.parts.map(([name]) => name));
      for (const [name, part] of there) if (!names.has(name)) part.remove();
      let last = null;
      for (const [name] of listed.parts) {
        const old = there.get(name);
        // What is being pressed or dragged is renewed the next time.
        const held = old && old.querySelector(":active");
        const fresh = held ? undefined : parts.get(name);
        if (old && fresh) window.noisescale.renew(old, fresh);
        const part = fresh || old;
        const right = last ? last.nextElementSibling : main.firstElementChild;
        if (right !== part) main.insertBefore(part, right);
        if (fresh && !old) window.noisescale.enhance(fresh);
        last = part;
      }
    });
  }

  let busy = false;
  async function look() {
    if (busy || document.hidden) return;
    busy = true;
    try {
      await renew();
      say("live", "live");
    } catch {
      say("lost", "not connected; trying again");
    }
    busy = false;
  }

  say("live", "live");
  setInterval(look, EVERY);
  document.addEventListener("visibilitychange", look);
})();
