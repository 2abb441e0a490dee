local manual = (...).manual

manual.plot = {
  call = "plot(y)  plot(x, y, {options})  plot{ {x =, y =, label =, error =, style =, width =}, ..., options }  "
    .. "plot{panels = { {curves, options}, ... }, options}",
  text = [[Draws curves; x, y and error are lists of numbers or Tensors. Of a curve: label (for the legend), error (bars
of that half length, or {from =, to =}, their ends), style "lines", "points", "linespoints" or "dashed", width of the
line in pixels. Options:

  title, xlabel, ylabel     texts
  xscale, yscale            "linear" or "log"
  xrange, yrange            {from, to}
  xticks, yticks            lists of the numbers to mark on the axis
  legend                    false, "right", "below", "top left", "top right", "bottom left", "bottom right"
  panels                    a list of pictures beside one another: each a table of curves with title, legend and
                            axes of its own; what is given outside for the axes holds where a panel has nothing
  columns                   of panels; without it about as many as rows
  size                      {width, height} in pixels;  save  a file name

Curves with the same label look the same in every panel, and one legend below serves all panels; legend = "right" or
another place gives each its own. In a terminal the panels stand below one another.

A point that is NaN or infinite, or not positive on a log axis, is left out. Shown as text in a terminal and as SVG in a
notebook; p:save("x.svg"), .png or .pdf writes a file.]],
  example = [[
plot{ {x = {128, 512, 2048}, y = {1, 4, 17}, label = "fleet"},
      {x = {128, 512, 2048}, y = {1, 15, 240}, label = "vanilla"},
      xscale = "log", yscale = "log", title = "Milliseconds over N" }
plot{panels = {{{1, 2, 4}, title = "Powers"},
               {{1, 4, 9}, title = "Squares"}}, xlabel = "n"}]],
}

manual.heatmap = {
  call = "heatmap(A, {title =, xlabel =, ylabel =, scale =, size =, save =})",
  text = [[Draws a matrix: one cell an element, row 1 at the top, light for small and dark for large values; scale "log"
colours by the logarithm. Of a matrix with more than 512 rows or columns (in a terminal: than fit) means over cells are
drawn.]],
  example = 'heatmap(randn(16, 16), {title = "Noise"})',
}
