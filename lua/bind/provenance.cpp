// What results are made of: digests of values and files, the identity of the program. For the files of lua/lib alone.
#include "core/base/build_id.hpp"
#include "core/base/digest.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/gpu.hpp"

namespace causeway::lua {
namespace {

std::string tensor_digest(const Tensor& A) {
    Digest digest;
    digest.add(std::string(name(A.dtype())) + " " + A.shape().text() + " ");
    digest.add(Bytes(A.raw(), A.bytes()));
    return digest.text();
}

// _digest(text or Tensor, of the GPU too) -> 16 hexadecimal digits; nil for anything else. Of a Tensor: its type, shape
// and elements, so it does not matter where it is.
int value_digest(lua_State* L) {
    std::string text;
    if (lua_type(L, 1) == LUA_TSTRING) {
        Digest digest;
        digest.add(text_at(L, 1));
        text = digest.text();
    } else {
        push_on_cpu(L, 1);
        if (!is_tensor(L, -1)) return lua_pushnil(L), 1;
        text = tensor_digest(check_tensor(L, -1, "value"));
    }
    push_text(L, text);
    return 1;
}

// _file_digest(path) -> 16 hexadecimal digits
int file_digest(lua_State* L) {
    const std::string text = digest_of_file(check_string(L, 1, "path"));
    push_text(L, text);
    return 1;
}

// _build_id() -> the identity of the running program
int build_identity(lua_State* L) {
    lua_pushstring(L, build_id().c_str());
    return 1;
}

}  // namespace

void open_provenance(lua_State* L) {
    add_functions(L, {
                         {"_digest", guarded<value_digest>},
                         {"_file_digest", guarded<file_digest>},
                         {"_build_id", guarded<build_identity>},
                     });
}

}  // namespace causeway::lua
