/* __SANITIZE_ADDRESS__ where AddressSanitizer is on, for both compilers; its functions are then there. */
#ifndef MPC_TESTS_CUDASIM_SANITIZED_H
#define MPC_TESTS_CUDASIM_SANITIZED_H

#if defined(__has_feature) && !defined(__SANITIZE_ADDRESS__)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#endif
