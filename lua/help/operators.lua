-- The operators of tensors that have no other name.
local manual = (...).manual

manual["*"] = {
  topic = "tensor",
  call = "A * B",
  text = [[The matrix product over the last two dimensions; the dimensions before them are those of a batch, and a
number scales. The product element by element is times(A, B), the sum A + B, the difference A - B, the quotient A / B,
all with broadcasting. Of Float32 and Float64 comes Float64; a number or a list of numbers beside a tensor takes the
type of the tensor. A:t() transposes: A * B:t().]],
  example = "A, B = randn(2, 3, 4), randn(2, 4, 5)\nA * B",
}
