// Boost.Asio's own functions, compiled once for the whole house (BOOST_ASIO_SEPARATE_COMPILATION).
#include <boost/asio/impl/src.hpp>
