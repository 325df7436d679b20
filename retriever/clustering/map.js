"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (id) => document.getElementById(id);
  const canvas = find("map"), pen = canvas.getContext("2d"), tip = find("tip"), search = find("search");
  const { points, clusters } = data; // a point: x, y, cluster, id, text, words, fields, left_out
  // What a level names and colours: label, size, colour, x, y, clusters. The first level is the clusters themselves.
  const levels = [clusters.map((cluster, number) => ({ ...cluster, clusters: [number] })), ...data.levels];
  const on = clusters.map(() => true);
  const MOVES = [0, -1, 1, -2, 2, -3, 3, -4, 4, -5, 5]; // of a label, in heights of its own
  let shown = points.map(() => true), chosen = null, width = 1, height = 1;
  let view = { x: 0, y: 0, scale: 1 };
  let parts = [], labels = [], partOf = []; // of the level shown; the part of every cluster

  const element = (name, text, parent) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };
  const unit = () => Math.min(width, height) * 0.46 * view.scale;
  const place = (x, y) => [width / 2 + (x - view.x) * unit(), height / 2 - (y - view.y) * unit()];

  const seen = (part) => part.clusters.some((number) => on[number]);

  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = points.map((point) => {
      const text = point.text.toLowerCase();
      return on[point.cluster] && words.every((word) => text.includes(word));
    });
    const count = shown.filter(Boolean).length;
    find("count").textContent = `${count} of ${points.length} documents`;
    draw();
  };

  const draw = () => {
    const ink = getComputedStyle(document.body);
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const radius = Math.max(1.6, Math.min(5, 90 / Math.sqrt(points.length))) * Math.sqrt(view.scale);
    points.forEach((point, row) => {
      if (!shown[row]) return;
      const [x, y] = place(point.x, point.y);
      pen.globalAlpha = 0.75;
      pen.fillStyle = partOf[point.cluster].colour;
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen.fill();
    });
    pen.globalAlpha = 1;
    if (chosen !== null) {
      const [x, y] = place(points[chosen].x, points[chosen].y);
      pen.strokeStyle = ink.color;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(x, y, radius + 4, 0, 2 * Math.PI);
      pen.stroke();
    }
    name();
  };

  // The labels of the first, large parts come first. One that would cover another moves up or down; without room it is left out.
  const name = () => {
    const taken = [];
    parts.forEach((part, number) => {
      const label = labels[number], [x, y] = place(part.x, part.y);
      label.hidden = !seen(part) || x < 0 || x > width || y < 0 || y > height;
      if (label.hidden) return;
      const { width: wide, height: high } = label.getBoundingClientRect();
      const left = Math.max(0, Math.min(width - wide, x - wide / 2));
      const free = (top) => top >= 0 && top + high <= height && taken.every((one) =>
        left >= one.left + one.wide || left + wide <= one.left || top >= one.top + one.high || top + high <= one.top);
      const top = MOVES.map((move) => y + (move - 0.5) * high).find(free);
      label.hidden = top === undefined;
      if (label.hidden) return;
      taken.push({ left, top, wide, high });
      label.style.transform = `translate(${left}px, ${top}px)`;
    });
  };

  const nearest = (event) => {
    const box = canvas.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    let best = null, least = 14 * 14;
    points.forEach((point, row) => {
      if (!shown[row]) return;
      const [x, y] = place(point.x, point.y);
      const distance = (x - left) ** 2 + (y - top) ** 2;
      if (distance < least) [best, least] = [row, distance];
    });
    return best;
  };

  const show = (row) => {
    chosen = row;
    const point = points[row], box = find("document");
    box.replaceChildren();
    element("strong", point.id, box);
    element("p", point.text, box);
    const list = element("dl", undefined, box);
    const groups = data.levels.map((level) => level.find((part) => part.clusters.includes(point.cluster)));
    const facts = [["cluster", clusters[point.cluster].label], ...groups.map((part) => ["group", part.label])];
    if (point.words.length) facts.push(["model's words", point.words.join(", ")]);
    facts.push(...Object.entries(point.fields));
    if (point.left_out) facts.push(["left out", `${point.left_out} more fields`]);
    for (const [name, value] of facts) {
      element("dt", name, list);
      element("dd", value, list);
    }
    draw();
  };

  let held = null, moved = false;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, y: event.clientY, view: { ...view } };
    moved = false;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const [across, down] = [event.clientX - held.x, event.clientY - held.y];
      moved = moved || Math.hypot(across, down) > 4;
      view = { ...held.view, x: held.view.x - across / unit(), y: held.view.y + down / unit() };
      tip.hidden = true;
      draw();
      return;
    }
    const row = nearest(event);
    tip.hidden = row === null;
    if (row === null) return;
    const point = points[row];
    tip.textContent = point.text.length > 200 ? `${point.text.slice(0, 200)}...` : point.text;
    const box = canvas.getBoundingClientRect();
    tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 12, width - 340))}px`;
    tip.style.top = `${Math.max(0, Math.min(event.clientY - box.top + 12, height - 110))}px`;
  });
  canvas.addEventListener("pointerup", (event) => {
    held = null;
    if (moved) return;
    const row = nearest(event);
    if (row !== null) show(row);
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left - width / 2, event.clientY - box.top - height / 2];
    const [x, y] = [view.x + left / unit(), view.y - top / unit()];
    view.scale = Math.max(0.5, Math.min(40, view.scale * Math.exp(-event.deltaY / 500)));
    view.x = x - left / unit();
    view.y = y + top / unit();
    draw();
  }, { passive: false });
  search.addEventListener("input", filter);

  const explain = (part) => {
    const button = element("button", undefined, element("li", undefined, find("legend")));
    button.type = "button";
    button.setAttribute("aria-pressed", String(seen(part)));
    const swatch = element("span", undefined, button);
    swatch.className = "swatch";
    swatch.style.backgroundColor = part.colour;
    element("span", part.label, button).className = "name";
    element("span", String(part.size), button).className = "size";
    button.addEventListener("click", () => {
      const shows = !seen(part);
      for (const number of part.clusters) on[number] = shows;
      button.setAttribute("aria-pressed", String(shows));
      filter();
    });
  };

  const choose = (level) => {
    parts = levels[level];
    for (const part of parts) for (const number of part.clusters) partOf[number] = part;
    find("labels").replaceChildren();
    find("legend").replaceChildren();
    labels = parts.map((part) => element("span", part.label, find("labels")));
    parts.forEach(explain);
    filter();
  };

  const levelBox = find("level");
  levels.forEach((level, number) => element("option", `${level.length} ${number ? "groups" : "clusters"}`, levelBox));
  levelBox.hidden = levels.length === 1;
  levelBox.addEventListener("change", () => choose(levelBox.selectedIndex));
  find("title").textContent = data.title;
  new ResizeObserver(() => {
    width = canvas.clientWidth;
    height = canvas.clientHeight;
    canvas.width = width * devicePixelRatio;
    canvas.height = height * devicePixelRatio;
    draw();
  }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  choose(0);
})();
