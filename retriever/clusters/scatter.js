"use strict";
// Points on a canvas with names on them: of the page that `retriever cluster --html` writes, and of the app.
//
// scatter(parent, options) builds an empty map into an element. `options` holds its label for readers of screens, and what the
// pointer does: text(row) is shown beside a point, pick(row, more) follows a click, or Enter for the one in the middle, and
// release() a double click or Escape. A drag moves the map. In a page that scrolls (`scrolls`), the wheel zooms with Ctrl
// only, and a finger moves the map only after zooming in.
//
// draw(scene) of what it returns shows the scene: x and y, between -1 and 1, of every point; part(row), with label, colour,
// shape and whether it is `seen`; the parts, large ones first, whose labels stand at their x and y (null: none); alpha(row), 0 for
// what is hidden; `ringed`, a row or null.
const scatter = (parent, options) => {
  const MOVES = [0, -1, 1, -2, 2, -3, 3, -4, 4, -5, 5]; // of a name, in heights of its own
  const EDGE = 1.04; // of the map, in units of the places
  const MOST_MOVING = 25_000, REST = 150; // points that are drawn while the map moves; milliseconds until all are again
  const NEAR = 14, STILL = 4; // pixels to a point, pixels a click may move
  const make = (name, style, text) => {
    const made = document.createElement(name);
    made.className = style;
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  };
  const canvas = make("canvas", "scatter-map"), names = make("div", "scatter-names"), tip = make("div", "scatter-tip");
  const tools = make("div", "scatter-tools"), pen = canvas.getContext("2d");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-label", options.label);
  names.setAttribute("aria-hidden", "true");
  tip.hidden = true;

  const sprites = new Map();
  let scene = null, labels = [], width = 1, height = 1, due = 0, rest = 0;
  let view = { x: 0, y: 0, scale: 1 };
  let held = null; // the pointer that is down: where it began, the view then

  const across = () => (width / 2 / EDGE) * view.scale;
  const down = () => (height / 2 / EDGE) * view.scale;
  const place = (x, y) => [width / 2 + (x - view.x) * across(), height / 2 - (y - view.y) * down()];
  const spot = ([left, top]) => [view.x + (left - width / 2) / across(), view.y - (top - height / 2) / down()];
  const within = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const sharp = (value) => Math.round(value * devicePixelRatio) / devicePixelRatio; // between pixels drawing is slower
  const radius = () => Math.max(1.8, Math.min(4.5, 90 / Math.sqrt(scene.x.length))) * Math.sqrt(view.scale);

  const outline = (path, shape, middle, size) => {
    const corners = (...turns) => turns.forEach(([angle, far], row) => {
      const at = [middle + far * size * Math.sin(angle * Math.PI), middle - far * size * Math.cos(angle * Math.PI)];
      path[row ? "lineTo" : "moveTo"](...at);
    });
    if (shape === "square") corners([0.25, 1.25], [0.75, 1.25], [1.25, 1.25], [1.75, 1.25]);
    else if (shape === "triangle-up") corners([0, 1.4], [2 / 3, 1.4], [4 / 3, 1.4]);
    else if (shape === "diamond") corners([0, 1.35], [0.5, 1.35], [1, 1.35], [1.5, 1.35]);
    else if (shape === "cross") {
      for (const turn of [0, 0.5, 1, 1.5]) {
        path.rect(middle - 0.42 * size, middle - 0.42 * size, 0.84 * size, 0.84 * size);
        path.rect(middle + Math.round(Math.sin(turn * Math.PI)) * 0.84 * size - 0.42 * size,
          middle - Math.round(Math.cos(turn * Math.PI)) * 0.84 * size - 0.42 * size, 0.84 * size, 0.84 * size);
      }
    } else path.arc(middle, middle, size, 0, 2 * Math.PI);
  };

  // A point's picture, made once for a colour, a shape and a size: thousands of pictures are drawn faster than outlines.
  const sprite = (part, size) => {
    const key = `${part.colour} ${part.shape} ${size} ${devicePixelRatio}`;
    if (!sprites.has(key)) {
      if (sprites.size > 200) sprites.clear();
      const picture = document.createElement("canvas"), half = Math.ceil(size * 1.5) + 1;
      picture.width = picture.height = 2 * half * devicePixelRatio;
      const ink = picture.getContext("2d");
      ink.scale(devicePixelRatio, devicePixelRatio);
      ink.fillStyle = part.colour;
      ink.beginPath();
      outline(ink, part.shape, half, size);
      ink.fill();
      sprites.set(key, { picture, half });
    }
    return sprites.get(key);
  };

  const paint = () => {
    due = 0;
    if (scene === null || width < 2) return;
    const [wide, high] = [width, height].map((side) => Math.round(side * devicePixelRatio));
    if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const size = radius(), pictures = new Map(scene.parts.map((part) => [part, sprite(part, size)]));
    const step = rest ? Math.ceil(scene.x.length / MOST_MOVING) || 1 : 1;
    for (const bright of [false, true]) { // what is chosen lies on top
      for (let row = 0; row < scene.x.length; row += step) {
        const alpha = scene.alpha(row);
        if (alpha === 0 || (alpha > 0.5) !== bright) continue;
        const [x, y] = place(scene.x[row], scene.y[row]);
        if (x < -size || y < -size || x > width + size || y > height + size) continue;
        const { picture, half } = pictures.get(scene.part(row));
        pen.globalAlpha = alpha;
        pen.drawImage(picture, sharp(x - half), sharp(y - half), 2 * half, 2 * half);
      }
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = getComputedStyle(canvas).color;
    pen.lineWidth = 2;
    if (scene.ringed !== null) {
      pen.beginPath();
      pen.arc(...place(scene.x[scene.ringed], scene.y[scene.ringed]), size + 4, 0, 2 * Math.PI);
      pen.stroke();
    }
    name();
  };
  const later = () => { due ||= requestAnimationFrame(paint); };
  const moving = () => {
    clearTimeout(rest);
    rest = setTimeout(() => { rest = 0; later(); }, REST);
    later();
  };

  // The names of the first, large parts come first. One that would cover another moves up or down; without room it is left out.
  const name = () => {
    const taken = [];
    for (const { part, label, wide, high } of labels) {
      const [x, y] = place(part.x, part.y);
      label.hidden = !part.seen || part.x === null || x < 0 || x > width || y < 0 || y > height;
      if (label.hidden) continue;
      const left = Math.max(0, Math.min(width - wide, x - wide / 2));
      const free = (top) => top >= 0 && top + high <= height && taken.every((one) =>
        left >= one.left + one.wide || left + wide <= one.left || top >= one.top + one.high || top + high <= one.top);
      const top = MOVES.map((move) => y + (move - 0.5) * high).find(free);
      label.hidden = top === undefined;
      if (label.hidden) continue;
      taken.push({ left, top, wide, high });
      label.style.transform = `translate(${left}px, ${top}px)`;
    }
  };
  const measure = () => {
    for (const one of labels) {
      one.label.hidden = false;
      ({ width: one.wide, height: one.high } = one.label.getBoundingClientRect());
      one.label.hidden = true; // until it has its place
    }
  };

  const nearest = ([left, top], reach = Math.max(NEAR, radius())) => {
    let best = null, least = reach * reach;
    for (let row = 0; row < scene.x.length; row++) {
      if (scene.alpha(row) === 0) continue;
      const [x, y] = place(scene.x[row], scene.y[row]), distance = (x - left) ** 2 + (y - top) ** 2;
      if (distance < least) [best, least] = [row, distance];
    }
    return best;
  };

  const zoom = (by, [left, top] = [width / 2, height / 2]) => {
    const [x, y] = spot([left, top]);
    view.scale = Math.max(0.5, Math.min(40, view.scale * by));
    view = { ...view, x: x - (left - width / 2) / across(), y: y + (top - height / 2) / down() };
    touch();
    moving();
  };
  const whole = () => {
    view = { x: 0, y: 0, scale: 1 };
    touch();
    later();
  };
  const touch = () => {
    canvas.style.touchAction = options.scrolls && view.scale <= 1 ? "pan-y pinch-zoom" : "none";
  };
  const release = () => {
    held = null;
    options.release?.();
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !event.isPrimary) return;
    held = { from: within(event), view: { ...view }, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (scene === null || !event.isPrimary) return;
    if (!event.buttons) held = null; // it went up unseen
    const at = within(event);
    if (!held) {
      hover(at);
      return;
    }
    const [right, low] = [at[0] - held.from[0], at[1] - held.from[1]];
    held.moved ||= Math.hypot(right, low) > STILL;
    tip.hidden = true;
    if (!held.moved) return;
    view = { ...view, x: held.view.x - right / across(), y: held.view.y + low / down() };
    moving();
  });
  canvas.addEventListener("pointerup", (event) => {
    const was = held;
    if (was === null || !event.isPrimary) return;
    held = null;
    if (!was.moved) {
      const row = nearest(within(event));
      if (row !== null) options.pick(row, event.shiftKey);
    }
  });
  canvas.addEventListener("pointercancel", () => { held = null; later(); });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", release);
  canvas.addEventListener("wheel", (event) => {
    if (options.scrolls && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 500), within(event));
  }, { passive: false });

  const KEYS = {
    ArrowLeft: () => { view.x -= 0.2 / view.scale; }, ArrowRight: () => { view.x += 0.2 / view.scale; },
    ArrowUp: () => { view.y += 0.2 / view.scale; }, ArrowDown: () => { view.y -= 0.2 / view.scale; },
    "+": () => zoom(1.4), "-": () => zoom(1 / 1.4), "0": whole, Escape: release,
    Enter: (event) => {
      const row = scene && nearest([width / 2, height / 2], Infinity);
      if (row !== null) options.pick(row, event.shiftKey);
    },
  };
  canvas.addEventListener("keydown", (event) => {
    if (!Object.hasOwn(KEYS, event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    KEYS[event.key](event);
    later();
  });

  const hover = (at) => {
    const row = nearest(at);
    tip.hidden = row === null;
    if (row === null) return;
    tip.textContent = options.text(row);
    tip.style.left = "0"; // where it has room to be as wide as it would
    tip.style.left = `${Math.max(0, Math.min(at[0] + 12, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(0, at[1] + 14 + tip.offsetHeight > height ? at[1] - 10 - tip.offsetHeight : at[1] + 14)}px`;
  };

  const button = (title, mark, act) => {
    const made = make("button", "", mark);
    made.type = "button";
    made.title = title;
    made.setAttribute("aria-label", title);
    made.addEventListener("click", act);
    tools.append(made);
    return made;
  };
  button("+ closer", "+", () => zoom(1.4));
  button("− farther", "−", () => zoom(1 / 1.4));
  button("Show the whole map", "Fit", whole);
  canvas.style.cursor = "grab";
  touch();

  new ResizeObserver(() => {
    width = canvas.clientWidth;
    height = canvas.clientHeight;
    measure();
    paint();
  }).observe(canvas);

  return {
    draw: (next) => {
      if (scene?.parts !== next.parts) {
        names.replaceChildren();
        labels = next.parts.map((part) => {
          const label = document.createElement("span");
          label.textContent = part.label;
          names.append(label);
          return { part, label, wide: 0, high: 0 };
        });
        measure();
      }
      scene = next;
      paint();
    },
  };
};
