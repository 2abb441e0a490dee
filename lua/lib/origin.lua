-- What made a result: machine and versions, build, command line, script and its commit, the data that was loaded.
local causeway = ...

-- The text of a file; nil where it cannot be read, or where JSON could not keep it as it is.
local function text_of(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read("a")
  file:close()
  return text and utf8.len(text) and text or nil
end

-- The output of git in a folder; nil where there is no git, no repository or no commit.
local function git(folder, ...)
  local good, status, output = pcall(causeway._run_program, { "git", "-C", folder, ... }, "")
  if not good then causeway._pass_on(status) end
  return good and status == 0 and output or nil
end

-- The commit of the repository that holds the folder, and whether a file that it knows differs from it. CAUSEWAY_COMMIT
-- names the commit of a copy whose repository is another one or missing, as on a machine that was sent the files alone;
-- nobody knows there what differs.
local function commit_of(folder)
  local said = (os.getenv("CAUSEWAY_COMMIT") or ""):match("^%x+$")
  if said then return said end
  local commit = git(folder, "rev-parse", "HEAD")
  if not commit then return nil end
  local changes = git(folder, "--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
  return commit:match("%x+"), changes ~= ""
end

--- The digest of a file that was loaded; "gone" where it cannot be read any more.
function causeway._digest_of_data(path)
  local good, digest = pcall(causeway._file_digest, path)
  if not good then causeway._pass_on(digest) end
  return good and digest or "gone"
end

--- The table that results of a script or of the prompt carry: machine, versions, build, seed, command, script = {path,
--- text}, commit, dirty, data = {path = digest} of the files loaded so far. What is not known is not there.
function causeway._origin(seed)
  local origin = causeway._machine()
  origin.seed, origin.build = seed, causeway._build_id()
  local given = causeway._command or {}
  if #given > 0 then origin.command = table.move(given, 1, #given, 1, {}) end
  local path = given.script and given[given.script]
  if path then
    origin.script = { path = path, at = given.script }
    if path ~= "-" then origin.script.text = given.text or text_of(path) end
  end
  local folder = path and (path:match("^(.*)/[^/]*$") or ".") or "."
  origin.commit, origin.dirty = commit_of(folder == "" and "/" or folder)
  for loaded in pairs((causeway._loads())) do
    origin.data = origin.data or {}
    origin.data[loaded] = causeway._digest_of_data(loaded)
  end
  return origin
end
