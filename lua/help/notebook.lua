local manual = (...).manual

manual.interact = {
  call = "interact(f, {name = values, ...}, {order = {...}})",
  text = [[Shows what f returns for the values that are set by hand, and again whenever one is moved. f gets one table,
p.name for each name. In JupyterLab with its widgets (jupyterlab_widgets, which `./lab notebook` installs) each name is
a control above the result; elsewhere the result for the first values is shown, with a line that says so, and in the
shell the same.

  {min, max, step}        a slider; step: 1 for integers, a hundredth of the range for others
  {"a", "b", ...}         a menu, as is any list but two or three numbers; {choices = {64, 128, 256}}
  true or false           a checkbox
  "text"                  a field to type in
  10                      a slider from -10 to 30

The first value is the middle of a slider's range and the first of a menu, or that of `value`, as in {0.5, 1, 0.01,
value = 0.9}. Controls stand in the order of their names, or of `order`.

What interact returns holds the values, p.name, and sets them: p{name = value}, or p.name = value, calls f again and in
a notebook moves the control. An error of f, when a control is moved, stands where its result would.]],
  example = [[
p = interact(function(p) return p.gamma ^ p.n end,
  {gamma = {0.5, 1, 0.01}, n = {1, 10}})
p{gamma = 0.9}]],
}

manual.input = {
  call = "input([prompt])",
  text = [[Asks the user for a line and returns it, at the terminal and in a notebook; nil where the input has ended. In
a notebook io.read asks too. A front end that takes no questions, one that runs notebooks by itself say, is an error.]],
  example = "type(input)",
}

manual.clear_output = {
  call = "clear_output([wait])",
  text = [[In a notebook, takes away what the cell has shown so far: at once, or with wait = true only when the next
thing is shown, so that a picture that is drawn again does not flicker. In a terminal it does nothing.]],
  example = "clear_output()",
}
