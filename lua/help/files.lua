-- Help for load, save and JSON.
local manual = (...).manual

manual.load = {
  call = "load(path, {nested =, names =, part =, dim =, sharded =, header =})",
  text = [[
Reads a file; its extension says what comes back:
  .npy          a Tensor
  .npz          a table of name -> Tensor, of NumPy's savez or savez_compressed
  .safetensors  a table of name -> Tensor and, second, the table of its metadata
  .csv          an array of rows, each a table of column -> value and, second, the array of column names
  .json         tables, strings, numbers and booleans; a Tensor comes back as lists, of which tensor(x) makes one again
With {nested = true} the tensors of a .npz or .safetensors file come as tables in one another, as save takes them:
"layers.1.w" is at x.layers[1].w.
Of a .safetensors file a part can be read without the rest: {names = {"q", "k"}} reads these tensors alone,
{part = {101, 200}} positions 101 to 200 of each along dimension dim (the last but one unless given), and
{sharded = true}, under `./lab mpi N`, what shard(x, dim) takes of each on this rank.
Tensors keep Float16, BFloat16, Float32 and Float64; booleans and integers up to 16 bits become Float32, larger ones
Float64. What no Tensor can hold, as complex numbers, texts, five dimensions or a 64-bit integer that Float64 does not
hold exactly, is an error; among other tensors of a .npz or .safetensors file it is left out, and a note says so.
A file of PyTorch (.pt, .pth, .bin, .ckpt) is a program for Python: it is refused with the line of Python that turns it
into a .safetensors file.
rows:column("time") is a column of the rows of a .csv file as a list, without what is empty, tensor(...) of it a tensor.
The first line of a .csv file names the columns. One without names, as of np.savetxt, is a Tensor [lines, columns] with
{header = false}. Commas part the cells, or semicolons or tabs where the first line has these and no comma.
A cell of a .csv file is a number or a boolean where all of it is one, text otherwise or in quotes, nil where empty.
In every format a name that stands twice (a column, a key, a tensor) is an error, and so are a number beyond Float64,
as 1e999, and a file that is written to while it is read. -0 is the number -0.0, what is too small for Float64 is 0,
and whole numbers beyond 64 bits in text are the nearest Float64.
Called with a chunk of Lua, or with a function, load is Lua's own; it, loadfile, dofile and require take text, and the
first two bytecode where their mode asks for it ("b"), which Lua does not check.]],
  example = [[
local path = os.tmpname() .. ".csv"
save(path, {{method = "fleet", N = 128}})
print(load(path)[1].method)]],
}

manual.save = {
  call = "save(path, value, options)",
  text = [[
Writes a file; its extension says what the value has to be:
  .npy          a Tensor (not BFloat16, which NumPy does not know)
  .npz          a table of name -> Tensor, for NumPy; not compressed
  .safetensors  a table of name -> Tensor; {metadata = {name = "text"}} adds remarks
                in both, tables may stand in the table, as parameters do: the tensor of {layers = {{w = A}}} is named
                "layers.1.w"; load(path) gives a flat table back, load(path, {nested = true}) the tables
  .csv          an array of rows, each a table of column -> number, string or boolean; {columns = {"N", "method"}} says
                which columns and in which order (otherwise all, sorted)
  .json         tables, strings, numbers, booleans and Tensors, which come back as lists of numbers (the others keep
                Tensors)
Under `./lab mpi N` save(path, {x = part}, {sharded = true, dim = 3}) writes one .safetensors file of the parts that the
ranks have along dimension dim (the last but one unless given), each rank its own: the file of unshard(part, dim).
Of an optimiser, save opt.params and make it anew, as in adam{load(path, {nested = true}), lr = 0.01}: its moments are
kept in no file.
The file appears complete or not at all: when writing fails the old one stays.]],
  example = [[
local path = os.tmpname() .. ".json"
save(path, {{N = 128, time = 3.7e-7}})
print(load(path)[1].time)]],
}

manual.mkpath = {
  call = "mkpath(folder)",
  text = "Makes a folder, with those above it where they are missing. One that is there already stays as it is.",
  example = [[mkpath(os.tmpname() .. ".d/results")]],
}

manual.json_encode = {
  call = "json_encode(value)",
  text = [[
The value as one line of JSON. A table with positions 1, 2, ... is an array, one with names an object (names sorted),
the empty table an array. Floats keep a point, so integers and floats come back as they were. NaN and the infinities,
which JSON lacks, are {"$numberDouble": "NaN"}, "Infinity" and "-Infinity", as in MongoDB Extended JSON, and json_decode
turns them back. A Tensor is nested arrays, json_null is null; bytes of a string that are not UTF-8 become U+FFFD,
and in a name they are an error.]],
  example = [[json_encode({N = 128, time = 3.7e-7, note = "OOM"})]],
}

manual.json_decode = {
  call = "json_decode(text)",
  text = [[
The value that JSON text stands for. {"$numberDouble": "NaN"}, "Infinity" or "-Infinity" is a number; null is nil in an
object and json_null in an array, where it keeps its place. A name that stands twice in one object and a number beyond
Float64 are errors, as in load.]],
  example = [[json_decode('{"N": 128, "times": [0.25, 0.5]}').times[2] ]],
}

manual.json_null = {
  call = "json_null",
  text = "What null in a JSON array is in Lua, and what json_encode writes as null.",
  example = [[json_encode({1, json_null, 3})]],
}
