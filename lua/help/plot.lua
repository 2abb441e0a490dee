local manual = (...).manual

manual.plot = {
  call = "plot(y)  plot(x, y, {options})  plot{ {x =, y =, label =, error =, style =, width =, like =}, ..., "
    .. "options }  plot{panels = { {curves, options}, ... }, options}  plot(rows, \"x\", \"y\", {by =, options})",
  text = [[Draws curves; x, y and error are lists of numbers or Tensors. Of a curve: label (its name), error (half the
length of its bars, or {from =, to =}, their ends), spread (how the error is drawn: "bars" or "band"), style "lines",
"points", "linespoints" or "dashed", width of the line in pixels, like (the label of another curve, whose colour and
mark this one has too: points that were printed beside those measured). Options:

  title, xlabel, ylabel     texts; a formula stands between dollar signs
  xscale, yscale            "linear" or "log"
  xrange, yrange            {from, to}
  xticks, yticks            lists of the numbers to mark on the axis
  xunit, yunit              "seconds" or "bytes": what the values are
  spread                    "bars" or "band", of all curves
  best                      "lowest" or "highest": which of many curves a
                            terminal shows in colour
  legend                    false, "right", "below", "top left", "top right",
                            "bottom left", "bottom right"
  panels                    a list of pictures beside one another: each a table
                            of curves with title, legend and axes of its own;
                            what is given outside for the axes holds where a
                            panel has nothing
  columns                   of panels; without it about as many as rows
  size                      {width, height} in pixels
  font, font_size           of files: a name, and pixels
  save                      a file name

In a terminal curves are drawn in braille, each with its name at its right end. Of more than six the six that end lowest
are in colour, the others grey; without colours marks and dashes tell curves apart, and the others are dotted. The
spread is drawn for up to four curves. Panels stand below one another.

p:save("x.svg"), .png or .pdf writes a file, which gnuplot draws, and returns p; at the prompt the path is shown. Pages
of report show the SVG. It follows the reader's choice of light and dark.

Rows are those of a .csv file or any list of tables {column = value}: "x" and "y" name two of their columns, and by a
third, with a curve for each of its values.

A method has one colour and one mark wherever it is drawn; curves with the same label look the same in every panel, and
one legend below serves all panels; legend = "right" or another place gives each its own.

x is marked at the plotted points where these are few. Values called seconds or bytes, by the last word of the label or
by xunit and yunit, are shown in the one unit that fits: ms, MiB. Ranges and ticks are given in seconds and bytes.

A formula is written as in TeX: "time $O(N \log N)$", "$\gamma^{i-j}$", "$d_k$"; a long string [=[...]=] keeps its
backslashes. All other text is shown as it is.

A point that is NaN or infinite, or not positive on a log axis, is left out.]],
  example = [[
plot{ {x = {128, 512, 2048}, y = {0.001, 0.004, 0.017}, label = "fleet"},
      {x = {128, 512, 2048}, y = {0.001, 0.015, 0.240}, label = "vanilla"},
      xscale = "log", yscale = "log", ylabel = "seconds", title = "$O(N)$" }
plot{panels = {{{1, 2, 4}, title = "Powers"},
               {{1, 4, 9}, title = "Squares"}}, xlabel = "n"}]],
}

manual.heatmap = {
  call = "heatmap(A, {title =, xlabel =, ylabel =, scale =, size =, font =, font_size =, save =})",
  text = [[Draws a matrix: one cell an element, row 1 at the top, light for small and dark for large values; scale "log"
colours by the logarithm. Where some elements are negative and some positive, 0 is light, and colours go as far below it
(blue) as above it (red). Of a matrix with more than 512 rows or columns (in a terminal: than fit) means over cells are
drawn. What is NaN or infinite, or not positive with scale = "log", is left blank, ?? in a terminal without colours.
Labels may have formulas, as those of plot.]],
  example = 'heatmap(randn(16, 16), {title = "Noise"})',
}
