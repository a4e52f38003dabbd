// The emulator has included all of it already: prelude/cuda.hpp.
#pragma once
