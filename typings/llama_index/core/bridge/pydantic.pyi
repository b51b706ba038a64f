from pydantic import Field as Field
from pydantic import PrivateAttr as PrivateAttr
