(async () => {
  const image = new Image();
  image.src = "data:image/png;base64,DATA";
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width;
  canvas.height = image.height;
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.width, image.height);
  const colours = new Set();
  let sum = 0;
  for (let at = 0; at < data.length; at += 4) {
    colours.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
    sum += data[at] + data[at + 1] + data[at + 2];
  }
  return [colours.size, Math.round(sum / (data.length / 4) / 3)];
})()
