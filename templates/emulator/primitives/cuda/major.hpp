enum class Major { K, MN };
