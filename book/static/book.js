// A figure opens in full size, by mouse or keyboard; a solution is folded.
document.addEventListener("DOMContentLoaded", () => {
  for (const image of document.querySelectorAll(".cell_output img")) {
    const link = document.createElement("a");
    link.href = image.src;
    link.setAttribute("aria-label", "Figure in full size");
    image.replaceWith(link);
    link.append(image);
  }
  for (const solution of document.querySelectorAll(".solution.dropdown")) {
    const [folded, title] = ["details", "summary"].map((name) => document.createElement(name));
    folded.className = solution.className;
    folded.id = solution.id;
    title.className = "admonition-title";
    title.textContent = solution.querySelector(".admonition-title").textContent;
    solution.querySelector(".admonition-title").replaceWith(title);
    folded.append(title, ...solution.childNodes);
    solution.replaceWith(folded);
  }
});
