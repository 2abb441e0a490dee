local manual = (...).manual

manual.help = {
  call = "help(name)",
  text = [[Shows how a function is called, what it does and an example. At the prompt `?name` does the same, and `?`
alone shows the topics. The name may be a string or the function itself. A method, update, factorisation, option or
document has a page too, and what papers or other libraries call it leads there: help("gla"), ?np.linspace.]],
  example = 'help("apropos")',
}

manual.apropos = {
  call = "apropos(word)",
  text = "Lists what contains the word in its name or its help. At the prompt `??word` does the same.",
  example = 'apropos("history")',
}

manual.choices = {
  call = "choices(function, option)",
  text = [[The words that an option of a function takes, as a list: what Tab offers for its value. The function is
given by its name.]],
  example = 'choices("linear_attention", "update")',
}

manual.error_kind = {
  call = "error_kind(message)",
  text = [[The kind of an error that pcall returned: "bad argument", "out of memory", "timeout", "interrupted"
(Ctrl-C), "I/O" (a file or a program that is missing or not as it should be), "system" (a device, a library or the
system refused), or nil for an error that does not come from this library. Decide by it, not by the text.

Errors are strings, and the kind belongs to the very string that was raised: pass it on with error(message, 0). A
message made of it is a new one without a kind. The last 64 messages are known.]],
  example = 'select(2, pcall(zeros, -1)); error_kind(select(2, pcall(zeros, 2^22, 2^22)))',
}

manual.display = {
  call = "display(value, ...)",
  text = [[Shows values as the prompt shows the value of an expression: tensors as aligned tables, tables laid out,
strings quoted, plots as pictures where the display can. `print` is Lua's own.

A value of your own is shown as its metamethod __tostring says, or __rich, which returns a table
{text = ..., svg = ..., html = ...}.]],
  example = 'display({1, 2, {name = "three"}})',
}

manual.terminal_size = {
  call = "terminal_size()",
  text = "Returns the columns and rows of the terminal, 80 and 24 where there is none.",
  example = "terminal_size()",
}

manual.ans = {
  call = "ans",
  text = [[The value of the last expression at the prompt, the first one if there were several. It is a variable like
any other and is also set where a `;` at the end of the line hides the value.]],
  example = "1 + 1;\nans * 21",
}

manual.exit = {
  call = "exit([status[, message]])",
  text = [[Ends the program; at the prompt `exit` alone does so too, as Ctrl-D does. The exit status is 0, or what is
given: a number, true or false. The message is shown as that of an error: exit(2, "--heads: 0, expected at least 1")
leaves a script whose options are wrong, with the status that the program has for its own. A script that ends with
an error has the status 1.]],
  example = "type(exit)",
}

manual.quit = {
  call = "quit([status[, message]])",
  text = "The same as exit.",
  example = "type(quit)",
}

manual.pi = {
  call = "pi",
  text = "The number π, math.pi.",
  example = "math.sin(pi / 6)",
}

manual["@time"] = {
  call = "@time EXPR",
  text = [[At the prompt and in -e: evaluates the expression or statement up to the end of the line or a semicolon once,
prints the seconds it took and the peak of the memory that tensors needed beyond what was held before, and has the
value of the expression. Macros stand at the start of a line and behind `;`, `=` and `return`.]],
  example = "@time 1 + 1",
}

manual["@btime"] = {
  call = "@btime EXPR",
  text = [[At the prompt and in -e, where @time may stand: measures the expression with btime, many samples after a
warm-up. Its value is what btime returns.]],
  example = "t = @btime 1 + 1; t.minimum",
}

manual["@show"] = {
  call = "@show EXPR",
  text = [[At the prompt and in -e, where @time may stand: prints the expression and its value, `EXPR = value`, and has
that value.]],
  example = "@show 1 + 1",
}

manual[";"] = {
  call = ";COMMAND",
  text = [[At the prompt and in -e, at the start of a line: runs a command of the system's shell. `;cd FOLDER` changes
the folder of this program.]],
  example = ";true",
}
