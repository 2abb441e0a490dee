-- Cells of whole models: a number once a model can be run here, until then one reason.
return { reason = "needs the model runner" }
