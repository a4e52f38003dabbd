"""The kernel around its statements: roles' bodies, storage, parameters, launch and what the header says."""
