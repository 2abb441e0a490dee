// The end of a kernel whose server has died.
#pragma once

namespace causeway::lua {

// From now on this process ends soon after the server that started it, which the environment variable JPY_PARENT_PID
// names, is gone: a server that was killed can ask nobody to. Without that variable, or where it names no process that
// this one can see, nobody is watched.
void end_with_the_server();

}  // namespace causeway::lua
