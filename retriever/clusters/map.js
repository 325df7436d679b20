(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (id) => document.getElementById(id);
  const search = find("search");
  const { points } = data; // a point: x, y, cluster, id, text, words, fields, left_out
  const clusters = data.clusters.map((cluster) => ({ ...cluster, seen: true })); // label, size, colour, x, y, seen
  const [x, y] = [points.map((point) => point.x), points.map((point) => point.y)];
  let shown = points.map(() => true), chosen = null;

  const element = (name, text, parent) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };

  const map = scatter(find("map"), {
    label: "Map of the documents; the list of clusters names its parts",
    text: (row) => {
      const { text } = points[row];
      return text.length > 200 ? `${text.slice(0, 200)}...` : text;
    },
    pick: (row) => show(row),
  });

  const draw = () => {
    map.draw({
      x, y, parts: clusters, part: (row) => clusters[points[row].cluster], alpha: (row) => (shown[row] ? 0.75 : 0),
      ringed: chosen,
    });
  };

  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = points.map((point) => {
      const text = point.text.toLowerCase();
      return clusters[point.cluster].seen && words.every((word) => text.includes(word));
    });
    const count = shown.filter(Boolean).length;
    find("count").textContent = `${count} of ${points.length} documents`;
    draw();
  };

  const show = (row) => {
    chosen = row;
    const point = points[row], box = find("document");
    box.replaceChildren();
    element("strong", point.id, box);
    element("p", point.text, box);
    const list = element("dl", undefined, box);
    const facts = [["cluster", clusters[point.cluster].label]];
    if (point.words.length) facts.push(["model's words", point.words.join(", ")]);
    facts.push(...Object.entries(point.fields));
    if (point.left_out) facts.push(["left out", `${point.left_out} more fields`]);
    for (const [name, value] of facts) {
      element("dt", name, list);
      element("dd", value, list);
    }
    draw();
  };

  const explain = (cluster) => {
    const button = element("button", undefined, element("li", undefined, find("legend")));
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    const swatch = element("span", undefined, button);
    swatch.className = "swatch";
    swatch.style.backgroundColor = cluster.colour;
    element("span", cluster.label, button).className = "name";
    element("span", String(cluster.size), button).className = "size";
    button.addEventListener("click", () => {
      cluster.seen = !cluster.seen;
      button.setAttribute("aria-pressed", String(cluster.seen));
      filter();
    });
  };

  search.addEventListener("input", filter);
  find("title").textContent = data.title;
  find("caution").textContent = data.caution;
  find("caution").hidden = !data.caution;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  clusters.forEach(explain);
  filter();
})();
