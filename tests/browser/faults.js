// What is wrong with the page that is open, as sentences; its ids and links, which another page may need.
() => {
  const faults = [];
  const width = document.documentElement.clientWidth;
  const named = (element) => {
    const text = (element.textContent || element.getAttribute("src") || "").trim().slice(0, 40);
    return `${element.tagName.toLowerCase()} "${text}"`;
  };
  const isShown = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });

  if (document.documentElement.scrollWidth > width)
    faults.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  const scrolls = (element) => {
    for (let at = element; at; at = at.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(at).overflowX)) return true;
    return false;
  };
  for (const part of document.querySelectorAll(".bd-article :is(table, pre, img, dl, p)"))
    if (isShown(part) && part.getBoundingClientRect().right > width + 1 && !scrolls(part))
      faults.push(`cut at the right: ${named(part)}`);

  for (const image of document.images) {
    if (!image.alt && !image.ariaHidden && image.getAttribute("role") !== "presentation")
      faults.push(`no alt text: ${named(image)}`);
    if (isShown(image) && image.complete && !image.naturalWidth) faults.push(`no picture: ${named(image)}`);
  }

  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) faults.push(`id twice: ${id}`);

  for (const fold of document.querySelectorAll("details"))
    if (!fold.querySelector(":scope > summary")) faults.push(`a fold without a summary: ${named(fold)}`);

  // Contrast of text to what is behind it, as WCAG 2 defines it: 4.5, and 3 of large text.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parsed = new Map();
  const rgba = (colour) => {
    if (!parsed.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
      parsed.set(colour, [red, green, blue, alpha / 255]);
    }
    return parsed.get(colour);
  };
  const over = (above, below) => [0, 1, 2].map((at) => above[at] * above[3] + below[at] * (1 - above[3]));
  const grounds = new Map([[null, [255, 255, 255]]]);
  const behind = (element) => {
    if (!grounds.has(element)) {
      const layer = rgba(getComputedStyle(element).backgroundColor);
      grounds.set(element, layer[3] === 1 ? layer.slice(0, 3) : over(layer, behind(element.parentElement)));
    }
    return grounds.get(element);
  };
  const luminance = (colour) => {
    const [red, green, blue] = colour.map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const faint = new Map();
  const texts = document.createTreeWalker(document.querySelector(".bd-article") || document.createElement("p"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !isShown(element) || element.closest("script, style, svg")) continue;
    const looks = getComputedStyle(element);
    const ground = behind(element);
    const lights = [luminance(over(rgba(looks.color), ground)), luminance(ground)].sort((one, other) => other - one);
    const contrast = (lights[0] + 0.05) / (lights[1] + 0.05);
    const size = parseFloat(looks.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && looks.fontWeight >= 700);
    const kind = `${looks.color} on rgb(${ground.map(Math.round)})`;
    if (contrast < (isLarge ? 3 : 4.5) && !faint.has(kind))
      faint.set(kind, `contrast ${contrast.toFixed(1)}, ${kind}: ${named(element)}`);
  }
  faults.push(...faint.values());

  const links = [...document.querySelectorAll("a[href]")].map((link) => new URL(link.getAttribute("href"), document.baseURI).href); // of SVG, too
  return { faults, ids, links };
};
