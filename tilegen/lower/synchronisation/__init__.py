"""Where the threads of a block must meet, and why: what they touched since they last met."""
