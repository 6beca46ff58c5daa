// A figure opens in full size, by mouse or keyboard.
document.addEventListener("DOMContentLoaded", () => {
  for (const image of document.querySelectorAll(".cell_output img")) {
    const link = document.createElement("a");
    link.href = image.src;
    link.setAttribute("aria-label", "Figure in full size");
    image.replaceWith(link);
    link.append(image);
  }
});
