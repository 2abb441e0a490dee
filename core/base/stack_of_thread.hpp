// Why a thread could not be started.
#pragma once

namespace causeway {

// Asked at once where the system has refused a thread: whether memory is what it lacked, for stacks of threads. Its
// error is the same one, EAGAIN, where the number of threads is at its limit.
bool no_room_for_stacks() noexcept;

}  // namespace causeway
