local manual = (...).manual

manual.plot = {
  call = "plot(y)  plot(x, y, {options})  plot{ {x =, y =, label =, error =, style =}, ..., options }",
  text = [[Draws curves; x, y and error are lists of numbers or Tensors. Of a curve: label (for the legend), error (bars of that half
length), style "lines", "points", "linespoints" or "dashed". Options:

  title, xlabel, ylabel     texts
  xscale, yscale            "linear" or "log"
  xrange, yrange            {from, to}
  legend                    false, "right", "below", "top left", "top right", "bottom left", "bottom right"
  size                      {width, height} in pixels;  save  a file name

A point that is NaN or infinite, or not positive on a log axis, is left out. Shown as text in a terminal and as SVG in a
notebook; p:save("x.svg"), .png or .pdf writes a file.]],
  example = 'plot{ {x = {128, 512, 2048}, y = {1, 4, 17}, label = "fleet"}, {x = {128, 512, 2048}, y = {1, 15, 240}, label = "vanilla"}, xscale = "log", yscale = "log", title = "Milliseconds over N" }',
}

manual.heatmap = {
  call = "heatmap(A, {title =, xlabel =, ylabel =, scale =, size =, save =})",
  text = [[Draws a matrix: one cell an element, row 1 at the top, light for small and dark for large values; scale "log" colours by
the logarithm. Of a matrix with more than 512 rows or columns (in a terminal: than fit) means over cells are drawn.]],
  example = 'heatmap(randn(16, 16), {title = "Noise"})',
}
