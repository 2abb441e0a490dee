#include "core/kit/eigen_products.hpp"

CAUSEWAY_EIGEN_PRODUCTS(, float)
CAUSEWAY_EIGEN_PRODUCTS(, double)
