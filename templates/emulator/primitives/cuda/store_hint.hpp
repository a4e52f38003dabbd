TILEGEN_DEVICE void store_{{ hint }}({{ type_name }}* to, {{ type_name }} value) { *to = value; }
