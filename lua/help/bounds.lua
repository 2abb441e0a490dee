-- Help for check_bound, with the claims that the registry has (core/bounds).
local causeway = ...
local manual = causeway.manual

local lines = {}
for _, claim in ipairs(causeway._claims()) do
  lines[#lines + 1] = string.format("  %-4s %s: %s", claim.id, claim.statement, claim.takes)
end

manual.check_bound = {
  call = "check_bound(claim, inputs)",
  text = [[
Checks a claim of proofs/ on your own tensors: a bound on an error, or a count. Shows a table with a row for each side
of the claim: what was measured, the bound, the margin (bound over measured) and whether it holds; a count has to be
equal. check_bound() lists the claims, check_bound(claim) the inputs of one of them, as its page ?B7 does.

]] .. table.concat(lines, "\n") .. [[


A letter is one size in all inputs of a claim: N, n or C tokens, r and d widths; optional inputs may be left out. Errors
are measured against extended precision. Tensors of Float64 are checked in Float64, others in Float32; q, k, v and B, C,
V may have leading dimensions of heads, "...", of which the worst entry counts. Π is what the definition gives on
absolute values, (|B||C|ᵀ ⊙ M)|V|.]],
  notes = [[The result is a list of rows, each {what, measured, bound, margin, exactly, holds}, with the fields claim,
statement, terms, proof, source and holds, which is true where all rows hold; its methods :table(), :markdown() and
:latex() give the table. NaN never holds. An input that the claim is not stated for, as a gate above 1, is an error.

A bound that fails on your input refutes the statement, its proof or the library: it is worth a report. The statements
are proved in the file of proofs/ that the table names, and checked by ./lab test proofs.]],
  example = [[
B, C, V = randn(200, 16), randn(200, 16), randn(200, 16)
check_bound("B7", {B = B, C = C, V = V})]],
}
